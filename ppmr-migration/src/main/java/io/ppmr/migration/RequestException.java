package io.ppmr.migration;

/** A request that is refused, as for a migration, a restart or a pod: nothing is done. Returns why, and what to do. */
public class RequestException extends Exception {
    public RequestException(String message) {
        super(message);
    }

    public RequestException(String message, Throwable cause) {
        super(message, cause);
    }
}
