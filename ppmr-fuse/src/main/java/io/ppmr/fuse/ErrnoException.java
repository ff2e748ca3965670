package io.ppmr.fuse;

/** A filesystem call that fails with an errno; the message says why, for the log. */
public final class ErrnoException extends Exception {
    private static final long serialVersionUID = 1L;

    private final Errno errno;

    public ErrnoException(Errno errno, String reason) {
        super(errno + ": " + reason);
        this.errno = errno;
    }

    public ErrnoException(Errno errno, String reason, Throwable cause) {
        super(errno + ": " + reason, cause);
        this.errno = errno;
    }

    public Errno errno() {
        return errno;
    }
}
