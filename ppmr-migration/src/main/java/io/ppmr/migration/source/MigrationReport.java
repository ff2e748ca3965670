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
 * @param bytes bytes of all images
 * @param stagedBytes part of them that went to staging at the target
 * @param seconds its duration
 * @param firstByteReadSeconds time at which a restart read the first byte
 * @param lastByteWrittenSeconds time at which a checkpointer wrote the last byte
 * @param bytesReadWhenLastWritten bytes that the restarts had read by then
 * @param poolBytes size of this node's pool
 * @param sourcePeakRssBytes this service's peak resident memory
 * @param targetPeakRssBytes the target service's peak resident memory
 * @param pauseSeconds time for which the job was stopped, from the first stopped rank until it computed again
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
        /** The originals continue, and no copy is left on the target. */
        ROLLED_BACK,
        /** No target accepted the job. The originals were not touched. */
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
        // A service of an earlier release does not send it.
        pages = pages == null ? "" : pages;
        ranks = List.copyOf(ranks);
    }

    /** Returns true if the originals are gone. If all is well, the job runs on the target. */
    public boolean moved() {
        return outcome == Outcome.COMMITTED || outcome == Outcome.IN_DOUBT;
    }
}
