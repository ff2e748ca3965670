package io.ppmr.migration.source;

/**
 * The progress of a migration.
 *
 * @param step what is being done
 * @param sentBytes bytes that the checkpointers have written
 * @param arrivedBytes bytes that have arrived at the target
 * @param readBytes bytes that the restarts have read
 * @param stagedBytes bytes that went to staging
 * @param seconds since the migration's start
 * @param expectedBytes about how many bytes there will be in all, by the memory of the processes; 0 if not known yet
 * @param pages how the job's memory travels, streamed or as images, and why; empty if it is not known yet, or where its
 *     checkpointer has one way only
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
        // A service of an earlier release does not say it.
        pages = pages == null ? "" : pages;
    }

    /** The steps of a migration, in their order (paper 1, section III). */
    public enum SourceStep {
        CONNECT,
        SUSPEND,
        CHECKPOINT,
        RESTART,
        COMMIT,
        RECONNECT,
        ROLL_BACK,
        DONE
    }
}
