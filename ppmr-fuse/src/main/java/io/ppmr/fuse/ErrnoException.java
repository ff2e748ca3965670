package io.ppmr.fuse;

/**
 * A filesystem call that fails with an errno. The message has the reason, for the log. It has no stack trace, because
 * it is an ordinary result that every user of a mount can cause any number of times.
 */
public final class ErrnoException extends Exception {
    private static final long serialVersionUID = 1L;

    private final Errno errno;

    public ErrnoException(Errno errno, String reason) {
        this(errno, reason, null);
    }

    public ErrnoException(Errno errno, String reason, Throwable cause) {
        super(errno + ": " + reason, cause, false, false);
        this.errno = errno;
    }

    public Errno errno() {
        return errno;
    }
}
