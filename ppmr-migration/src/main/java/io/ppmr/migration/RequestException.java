package io.ppmr.migration;

/**
 * A refused request, for example for a migration, a restart or a pod. Nothing was changed. The message has the cause
 * and the remedy.
 */
public class RequestException extends Exception {
    public RequestException(String message) {
        super(message);
    }

    public RequestException(String message, Throwable cause) {
        super(message, cause);
    }
}
