package io.ppmr.source;

import java.util.List;

/**
 * How a migration went. Times are seconds from its start; where nothing was read or written they are 0.
 *
 * @param migrationId its name
 * @param checkpointer what checkpointed the job
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
 * @param target where the spare node that was asked last listens, HOST:PORT; empty if none was
 * @param ranks what became of each rank
 */
public record MigrationReport(
        String migrationId,
        String checkpointer,
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
        String target,
        List<MovedRank> ranks) {

    /** How a migration ends. */
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
        ranks = List.copyOf(ranks);
    }

    /** One of which is not said yet which spare node took it. */
    public MigrationReport(
            String migrationId,
            String checkpointer,
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
            List<MovedRank> ranks) {
        this(
                migrationId,
                checkpointer,
                outcome,
                reason,
                bytes,
                stagedBytes,
                seconds,
                firstByteReadSeconds,
                lastByteWrittenSeconds,
                bytesReadWhenLastWritten,
                poolBytes,
                sourcePeakRssBytes,
                targetPeakRssBytes,
                "",
                ranks);
    }

    /** The same with another outcome and reason. */
    MigrationReport with(Outcome otherOutcome, String otherReason) {
        return with(otherOutcome, otherReason, target);
    }

    /** The same with a spare node. */
    MigrationReport at(String spareNode) {
        return with(outcome, reason, spareNode);
    }

    private MigrationReport with(Outcome otherOutcome, String otherReason, String spareNode) {
        return new MigrationReport(
                migrationId,
                checkpointer,
                otherOutcome,
                otherReason,
                bytes,
                stagedBytes,
                seconds,
                firstByteReadSeconds,
                lastByteWrittenSeconds,
                bytesReadWhenLastWritten,
                poolBytes,
                sourcePeakRssBytes,
                targetPeakRssBytes,
                spareNode,
                ranks);
    }
}
