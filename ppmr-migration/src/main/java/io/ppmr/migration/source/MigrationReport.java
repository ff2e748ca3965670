package io.ppmr.migration.source;

import io.ppmr.migration.keep.Keeping.KeptImageReport;
import java.util.List;

/**
 * The report of a migration. Times are seconds from its start, or 0 if nothing was read or written.
 *
 * @param migrationId its name
 * @param checkpointer checkpointer of the job
 * @param pages how its memory was sent, streamed or as images, and why, or empty if its checkpointer has only one way
 * @param outcome its outcome
 * @param reason reason of the outcome; empty for a commit
 * @param images bytes of the images
 * @param times times of the steps
 * @param memory memory of both services
 * @param ranks the moved ranks
 * @param copy report of the requested copy, or null if none was requested
 * @param slow whether it failed because the job's checkpoints wrote less than the configured minimum
 */
public record MigrationReport(
        String migrationId,
        String checkpointer,
        String pages,
        Outcome outcome,
        String reason,
        MovedImages images,
        MigrationTimes times,
        ServiceMemory memory,
        List<MovedRank> ranks,
        KeptImageReport copy,
        boolean slow) {

    /**
     * The bytes of all images of a migration.
     *
     * @param bytes all of them
     * @param stagedBytes those of them that went to staging at the target
     * @param bytesReadWhenLastWritten those that the restarts had read when a checkpointer wrote the last byte
     */
    public record MovedImages(long bytes, long stagedBytes, long bytesReadWhenLastWritten) {
        /** Nothing was moved. */
        public static final MovedImages NONE = new MovedImages(0, 0, 0);
    }

    /**
     * The times of a migration, in seconds from its start; 0 for what did not happen.
     *
     * @param seconds its end
     * @param firstByteReadSeconds when a restart read the first byte
     * @param lastByteWrittenSeconds when a checkpointer wrote the last byte
     * @param pauseSeconds how long the job did not compute: from the first rank's stop until all ranks continued
     */
    public record MigrationTimes(
            double seconds, double firstByteReadSeconds, double lastByteWrittenSeconds, double pauseSeconds) {
        /** Nothing happened. */
        public static final MigrationTimes NONE = new MigrationTimes(0, 0, 0, 0);
    }

    /**
     * The memory that both services took.
     *
     * @param poolBytes the size of this node's pool
     * @param sourcePeakRssBytes the peak resident memory of this service
     * @param targetPeakRssBytes the peak resident memory of the target service that took most
     */
    public record ServiceMemory(long poolBytes, long sourcePeakRssBytes, long targetPeakRssBytes) {
        /** Nothing was measured. */
        public static final ServiceMemory NONE = new ServiceMemory(0, 0, 0);
    }

    /** The outcome of a migration. */
    public enum Outcome {
        /** The ranks run on the target, the originals are gone. */
        COMMITTED,
        /** The originals continue, and no copy is left on the target. */
        ROLLED_BACK,
        /** Nothing of the job was changed: no target accepted it, or the migration ended before its first step. */
        REFUSED,
        /** The originals are gone and the target is unreachable, so the ranks are held there. */
        IN_DOUBT
    }

    /** A rank and the PIDs of its processes on the target, as the target's service sees them. */
    public record MovedRank(int rank, List<Integer> pids) {
        public MovedRank {
            pids = List.copyOf(pids);
        }
    }

    public MigrationReport {
        ranks = List.copyOf(ranks);
    }

    /** Returns true if the originals are gone. If all is well, the job runs on the target. */
    public boolean moved() {
        return outcome == Outcome.COMMITTED || outcome == Outcome.IN_DOUBT;
    }
}
