package io.ppmr.migration.source;

/**
 * The progress of a migration.
 *
 * @param step the current step
 * @param sentBytes bytes that the checkpointers wrote
 * @param arrivedBytes bytes that arrived at the target
 * @param readBytes bytes that the restarts read
 * @param stagedBytes bytes that went to staging
 * @param seconds time since the migration's start
 * @param expectedBytes estimated bytes of all images, from the memory of the processes, or 0 if not known yet
 * @param pages how the job's memory is sent, streamed or as images, and why, or empty if that is not known yet, or if
 *     its checkpointer has only one way
 */
public record MigrationProgress(
        SourceStep step,
        long sentBytes,
        long arrivedBytes,
        long readBytes,
        long stagedBytes,
        double seconds,
        long expectedBytes,
        String pages) {

    public MigrationProgress {
        // A service of an earlier release does not send it.
        pages = pages == null ? "" : pages;
    }

    /** The steps of a migration, in their order (paper 1, section III). */
    public enum SourceStep {
        CONNECT,
        /** The job's memory is copied while it computes. */
        PRECOPY,
        SUSPEND,
        CHECKPOINT,
        RESTART,
        COMMIT,
        RECONNECT,
        ROLL_BACK,
        DONE
    }
}
