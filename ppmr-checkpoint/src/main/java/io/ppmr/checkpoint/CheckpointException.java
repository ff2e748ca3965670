package io.ppmr.checkpoint;

/** A checkpoint or restart that failed. The message names the rank or process, the cause and the remedy. */
public final class CheckpointException extends Exception {
    private static final long serialVersionUID = 1L;

    public CheckpointException(String message) {
        super(message);
    }

    public CheckpointException(String message, Throwable cause) {
        super(message, cause);
    }
}
