package io.ppmr.migration.source;

import io.ppmr.migration.keep.Keeping.KeptImageReport;
import java.util.List;

/**
 * The report of a migration. Times are seconds from its start; where nothing was read or written they are 0.
 *
 * @param migrationId its name
 * @param checkpointer what checkpointed the job
 * @param pages how its memory travelled, streamed or as images, and why; empty where its checkpointer has one way only
 * @param outcome how it ended
 * @param reason why it ended so; empty for a commit
 * @param bytes bytes of all images
 * @param stagedBytes of them, those that went to staging at the target
 * @param seconds how long it lasted
 * @param firstByteReadSeconds when a restart read the first byte
 * @param lastByteWrittenSeconds when a checkpointer wrote the last byte
 * @param bytesReadWhenLastWritten how much the restarts had read by then
 * @param poolBytes size of this node's pool
 * @param sourcePeakRssBytes this service's peak resident memory
 * @param targetPeakRssBytes the target service's
 * @param pauseSeconds how long the job stood still, from the first rank that was stopped until it computed again
 * @param ranks what became of each rank
 * @param copy what became of the copy that was wanted; null if none was
 * @param slow whether it failed because the job's checkpoints wrote less than the configuration wants
 */
public record MigrationReport(
        String migrationId,
        String checkpointer,
        String pages,
        Outcome outcome,
        String reason,
        long bytes,
        long stagedBytes,
        double seconds,
        double firstByteReadSeconds,
        double lastByteWrittenSeconds,
        long bytesReadWhenLastWritten,
        long poolBytes,
        long sourcePeakRssBytes,
        long targetPeakRssBytes,
        double pauseSeconds,
        List<MovedRank> ranks,
        KeptImageReport copy,
        boolean slow) {

    /** The outcome of a migration. */
    public enum Outcome {
        /** The ranks run on the target, the originals are gone. */
        COMMITTED,
        /** The originals go on, nothing is left on the target. */
        ROLLED_BACK,
        /** The target did not want it; the originals were not touched. */
        REFUSED,
        /** The originals are gone and the target could not be told: the ranks are held there. */
        IN_DOUBT
    }

    /** A rank and the PIDs of its processes on the target, as the target's service sees them. */
    public record MovedRank(int rank, List<Integer> pids) {
        public MovedRank {
            pids = List.copyOf(pids);
        }
    }

    public MigrationReport {
        // A service of an earlier release does not say it.
        pages = pages == null ? "" : pages;
        ranks = List.copyOf(ranks);
    }

    /** Returns true if the originals are gone: the job, if all is well, runs on the target. */
    public boolean moved() {
        return outcome == Outcome.COMMITTED || outcome == Outcome.IN_DOUBT;
    }
}
