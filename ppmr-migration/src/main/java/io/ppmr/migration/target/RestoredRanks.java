package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.ProcessSnapshot;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The restored ranks of a migration on this node, held until the decision. Owned by the migration's thread. */
final class RestoredRanks {
    private static final Logger LOG = LoggerFactory.getLogger(RestoredRanks.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);

    private final String migrationId;
    private final List<HeldRank> ranks = new ArrayList<>();
    private final Map<Integer, StoppedProcesses> stopped = new HashMap<>();

    RestoredRanks(String migrationId) {
        this.migrationId = migrationId;
    }

    /**
     * Returns the ranks that an earlier run of the service voted for, or none if it did not vote.
     *
     * @param records the migration's records in the journal, in order
     */
    static RestoredRanks recorded(String migrationId, List<TransactionRecord> records) {
        TransactionRecord.PreparedHere vote = TransactionRecord.last(records, TransactionRecord.PreparedHere.class)
                .orElse(null);
        RestoredRanks copies = new RestoredRanks(migrationId);
        if (vote != null) {
            ProcessSnapshot now = new ProcessTable().snapshot();
            for (PlannedRank rank : vote.copies()) {
                List<ProcessIdentity> stopped = TransactionRecord.JobStopped.of(records, vote.attempt(), rank.rank());
                copies.add(HeldRank.recorded(rank.rank(), rank.processes(), stopped, now));
            }
        }
        return copies;
    }

    /** Notes which processes of a rank the job itself had stopped, as the source reports. */
    void noteStoppedByJob(int rank, StoppedProcesses which) {
        stopped.put(rank, which);
    }

    /**
     * Finds the copies of the processes that the job itself had stopped, when all ranks are here. Throws if they cannot
     * be identified.
     */
    void findStopped() throws CheckpointException {
        for (int i = 0; i < ranks.size(); i++) {
            HeldRank rank = ranks.get(i);
            StoppedProcesses recorded = stopped.get(rank.rank());
            if (recorded != null) {
                ranks.set(i, rank.withStoppedByJob(recorded.among(rank)));
            }
        }
    }

    /** Returns the ranks with processes that stay stopped, and only these processes, for the journal. */
    List<PlannedRank> stopped(String participant) {
        return ranks.stream()
                .filter(rank -> !rank.stoppedByJob().isEmpty())
                .map(rank -> new PlannedRank(rank.rank(), participant, List.copyOf(rank.stoppedByJob())))
                .toList();
    }

    void add(HeldRank rank) {
        ranks.add(rank);
    }

    int count() {
        return ranks.size();
    }

    /** Lists the ranks that are proved to be alive and held now. */
    List<Integer> heldRanks() {
        return ranks.stream()
                .filter(HeldRank::isHeld)
                .map(HeldRank::rank)
                .sorted()
                .toList();
    }

    /**
     * Returns the ranks in the order of their numbers with all their processes, for the journal and the job's commands.
     */
    List<PlannedRank> planned(String participant) {
        return ranks.stream()
                .sorted(Comparator.comparingInt(HeldRank::rank))
                .map(rank -> new PlannedRank(rank.rank(), participant, rank.processes()))
                .toList();
    }

    /** Names a rank that is not proved to be alive and held now, or empty if there are ranks and all are. */
    String whyNotHeld() {
        if (ranks.isEmpty()) {
            return "no copy of migration " + migrationId + " is known here";
        }
        for (HeldRank rank : ranks) {
            try {
                rank.requireHeld();
            } catch (CheckpointException e) {
                return String.valueOf(e.getMessage());
            }
        }
        return "";
    }

    /** Continues the ranks, except for processes that the job itself had stopped. Failures are logged. */
    void release() {
        HeldRank.releaseAll(ranks).forEach((rank, why) -> logOf(rank, "could not be continued", why));
    }

    /** Kills the ranks. Returns whether none is left. */
    boolean end() {
        Map<Integer, String> left = HeldRank.endAll(ranks, END_DEADLINE);
        left.forEach((rank, why) -> logOf(rank, "could not be killed", why));
        return left.isEmpty();
    }

    private void logOf(int rank, String what, String why) {
        try (LogContext.Scope about = LogContext.rank(rank)) {
            LOG.error("migration {}: rank {} {}: {}", migrationId, rank, what, why);
        }
    }
}
