package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.ProcessSnapshot;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.os.LogContext;
import io.ppmr.os.ProcessIdentity;
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

/** The restored ranks of a migration on this node, held until it is decided. Owned by the migration's thread. */
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
     * Those that an earlier run of the service has voted for; none if it has not.
     *
     * @param records what the journal has of the migration, in its order
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

    /** The source says which processes of a rank the job itself had stopped. */
    void jobHadStopped(int rank, StoppedProcesses which) {
        stopped.put(rank, which);
    }

    /** All ranks are here: finds the copies of what the job itself had stopped; throws where that cannot be told. */
    void findStopped() throws CheckpointException {
        for (int i = 0; i < ranks.size(); i++) {
            HeldRank rank = ranks.get(i);
            StoppedProcesses told = stopped.get(rank.rank());
            if (told != null) {
                ranks.set(i, rank.withStoppedByJob(told.among(rank)));
            }
        }
    }

    /** The ranks of which some processes stay stopped, with those alone; for the journal. */
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

    /** The ranks that are proved to be alive and held just now. */
    List<Integer> heldRanks() {
        return ranks.stream()
                .filter(HeldRank::isHeld)
                .map(HeldRank::rank)
                .sorted()
                .toList();
    }

    /** The ranks in the order of their numbers with all their processes, for the journal and the job's commands. */
    List<PlannedRank> planned(String participant) {
        return ranks.stream()
                .sorted(Comparator.comparingInt(HeldRank::rank))
                .map(rank -> new PlannedRank(rank.rank(), participant, rank.processes()))
                .toList();
    }

    /** Names a rank that is not proved to be alive and held just now; empty if there are ranks and all are. */
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

    /** Continues them, except for what the job itself had stopped; failures are logged. */
    void release() {
        HeldRank.releaseAll(ranks).forEach((rank, why) -> logOf(rank, "could not be continued", why));
    }

    /** Ends them; whether none is left. */
    boolean end() {
        Map<Integer, String> left = HeldRank.endAll(ranks, END_DEADLINE);
        left.forEach((rank, why) -> logOf(rank, "could not be ended", why));
        return left.isEmpty();
    }

    private void logOf(int rank, String what, String why) {
        try (LogContext.Scope about = LogContext.rank(rank)) {
            LOG.error("migration {}: rank {} {}: {}", migrationId, rank, what, why);
        }
    }
}
