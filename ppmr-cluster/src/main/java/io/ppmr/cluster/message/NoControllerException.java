package io.ppmr.cluster.message;

import java.io.IOException;

/** No active controller answers. The message names those that were tried, each with the reason. */
public final class NoControllerException extends IOException {
    private static final long serialVersionUID = 1;

    NoControllerException(String message) {
        super(message);
    }
}
