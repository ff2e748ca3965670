package io.ppmr.cli.config;

/** A value of the configuration that cannot be meant; the message says what is wrong and what would be right. */
public final class BadValueException extends Exception {
    public BadValueException(String message) {
        super(message);
    }
}
