package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.os.LogContext;
import io.ppmr.os.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Several held ranks at once, as a job has them: all are signalled together and waited for together, so that the pause
 * of a job does not grow with its ranks. Blocks the caller; an interrupt shortens no wait and stays set.
 */
public final class HeldRanks {
    private static final Logger LOG = LoggerFactory.getLogger(HeldRanks.class);

    private HeldRanks() {}

    /**
     * Lets all of them run (SIGCONT), but for what the job itself had stopped.
     *
     * @return why a rank could not be set going as it was, by rank; empty if all were
     */
    public static Map<Integer, String> release(Collection<? extends HeldRank> ranks) {
        try {
            return releaseAll(ranks);
        } catch (CheckpointException | RuntimeException e) {
            return allFailed(ranks, e);
        }
    }

    private static Map<Integer, String> releaseAll(Collection<? extends HeldRank> ranks) throws CheckpointException {
        Map<Integer, String> failures = new LinkedHashMap<>();
        List<ProcessIdentity> all = new ArrayList<>();
        Set<ProcessIdentity> gone = new LinkedHashSet<>();
        for (HeldRank rank : ranks) {
            all.addAll(held(rank).inOrderOfRelease());
            gone.addAll(held(rank).gone(rank.stoppedByJob()));
        }
        if (!all.isEmpty()) {
            gone.addAll(signals(ranks).sendAll(Signal.CONT, all));
        }
        for (HeldRank rank : ranks) {
            List<Integer> lost = rank.processes().stream()
                    .filter(gone::contains)
                    .map(ProcessIdentity::pid)
                    .toList();
            if (!lost.isEmpty()) {
                failures.put(
                        rank.rank(), "rank " + rank.rank() + " cannot go on as it was: PIDs " + lost + " are gone");
            }
        }
        return failures;
    }

    /**
     * Ends all of them (SIGKILL), and returns when they are gone.
     *
     * @param deadline how long to wait for them
     * @return what is left after it, by rank; empty if nothing is
     */
    public static Map<Integer, String> end(Collection<? extends HeldRank> ranks, Duration deadline) {
        try {
            return endAll(ranks, deadline);
        } catch (RuntimeException e) {
            return allFailed(ranks, e);
        }
    }

    private static Map<Integer, String> endAll(Collection<? extends HeldRank> ranks, Duration deadline) {
        Map<Integer, String> failures = new LinkedHashMap<>();
        List<ProcessIdentity> all = new ArrayList<>();
        ranks.forEach(rank -> all.addAll(held(rank).whole()));
        if (all.isEmpty()) {
            return failures;
        }
        ProcessTable table = new ProcessTable();
        String refused = "";
        try {
            signals(ranks).sendAll(Signal.KILL, all);
        } catch (CheckpointException e) {
            refused = ": " + e.getMessage();
        }
        boolean gone = Polling.untilTrue(deadline, () -> all.stream().noneMatch(table::isAlive));
        if (gone) {
            return failures;
        }
        for (HeldRank rank : ranks) {
            List<Integer> left = held(rank).whole().stream()
                    .filter(table::isAlive)
                    .map(ProcessIdentity::pid)
                    .toList();
            if (!left.isEmpty()) {
                String why = refused.isEmpty()
                        ? " " + deadline
                                + " after SIGKILL. Remedy: a process in state D waits for its filesystem; abort"
                                + " that mount"
                        : refused;
                failures.put(rank.rank(), "rank " + rank.rank() + ": PIDs " + left + " are still there" + why);
            }
        }
        return failures;
    }

    /**
     * Ends commands, all at once, and waits for the end of each.
     *
     * @param commands by rank
     * @param deadline for each
     * @return the ranks that a command has left held meanwhile
     */
    public static List<HeldRank> endCommands(Map<Integer, RankCommand> commands, Duration deadline) {
        List<HeldRank> held = new ArrayList<>();
        boolean interrupted = Thread.interrupted();
        commands.values().forEach(RankCommand::cancel);
        for (Map.Entry<Integer, RankCommand> command : commands.entrySet()) {
            try (LogContext.Scope about = LogContext.rank(command.getKey())) {
                HeldRank late = command.getValue().await(deadline);
                if (late != null) {
                    held.add(late);
                }
            } catch (CheckpointException | RuntimeException e) {
                LOG.info("the command of rank {} ended: {}", command.getKey(), e.getMessage());
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return held;
    }

    private static Map<Integer, String> allFailed(Collection<? extends HeldRank> ranks, Exception cause) {
        Map<Integer, String> failures = new LinkedHashMap<>();
        ranks.forEach(rank -> failures.put(rank.rank(), "rank " + rank.rank() + ": " + cause.getMessage()));
        return failures;
    }

    static void rethrow(Map<Integer, String> failures, int rank) throws CheckpointException {
        if (failures.containsKey(rank)) {
            throw new CheckpointException(failures.get(rank));
        }
    }

    private static HeldProcesses held(HeldRank rank) {
        return (HeldProcesses) rank;
    }

    private static SignalSender signals(Collection<? extends HeldRank> ranks) {
        return held(ranks.iterator().next()).signals();
    }
}
