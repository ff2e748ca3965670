package io.ppmr.migration;

/** A request that names a job which does not exist. */
public final class UnknownJobException extends RequestException {
    private static final long serialVersionUID = 1;

    public UnknownJobException(String message) {
        super(message);
    }
}
