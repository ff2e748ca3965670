package io.ppmr.cli.service;

/** A migration that is not started; the message says why and what to do. */
public final class RefusedException extends Exception {
    public RefusedException(String message) {
        super(message);
    }
}
