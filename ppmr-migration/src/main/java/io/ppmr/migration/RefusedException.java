package io.ppmr.migration;

/** A migration, or a restart from kept images, that is not started; the message says why and what to do. */
public final class RefusedException extends Exception {
    public RefusedException(String message) {
        super(message);
    }

    public RefusedException(String message, Throwable cause) {
        super(message, cause);
    }
}
