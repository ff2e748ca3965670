package io.ppmr.fuse;

import java.io.IOException;

/** A mount that could not be created, kept or closed. The message names the mount point, the cause and the remedy. */
public final class MountException extends IOException {
    private static final long serialVersionUID = 1L;

    public MountException(String message) {
        super(message);
    }

    public MountException(String message, Throwable cause) {
        super(message, cause);
    }
}
