package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.os.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A rank all of whose processes are stopped, the originals after a checkpoint or the copies after a restart, with those
 * that exist only for their sake. Immutable; for any thread. It can be made again from recorded identities, by a
 * service that was restarted. Several ranks, as a job has them, are signalled together and waited for together, so that
 * the pause of a job does not grow with its ranks.
 *
 * <p>How much each thread has run is noted when this is made, and {@link #requireHeld} compares: a process that was
 * continued and stopped again between two looks shows by that.
 */
public final class HeldRank {
    private static final Logger LOG = LoggerFactory.getLogger(HeldRank.class);

    /** A thread that shows as stopped may stay on a processor's queue for that time. */
    private static final Duration SETTLE_LIMIT = Duration.ofMillis(500);

    private final int rank;
    private final List<ProcessIdentity> processes;
    private final List<ProcessIdentity> companions;
    private final Set<ProcessIdentity> stoppedByJob;
    private final Map<ProcessIdentity, RunTimes> times;
    private final ProcessTable table;
    private final SignalSender signals;

    /**
     * A rank that has just been found held: the command that has stopped it has ended, or does nothing more to it.
     * Waits until its threads have left their processors, which takes no time but on a busy node, and notes how much
     * they have run.
     *
     * @param rank the rank's number
     * @param processes its processes, the root first
     * @param companions what ends with them and is never stopped: a namespace's init, a {@code cr_restart}
     */
    public HeldRank(int rank, List<ProcessIdentity> processes, List<ProcessIdentity> companions) {
        this(rank, processes, companions, Set.of(), new ProcessTable(), SETTLE_LIMIT);
    }

    /**
     * A rank whose processes {@link ProcessTable#standstill} has found stopped a moment ago, so that those which it
     * found off their processors, too, need no further wait.
     */
    static HeldRank of(int rank, List<ProcessIdentity> processes, List<ProcessIdentity> companions, StopState found) {
        Duration settleLimit = found.isOffProcessors() ? Duration.ZERO : SETTLE_LIMIT;
        return new HeldRank(rank, processes, companions, Set.of(), new ProcessTable(), settleLimit);
    }

    private HeldRank(
            int rank,
            List<ProcessIdentity> processes,
            List<ProcessIdentity> companions,
            Set<ProcessIdentity> stoppedByJob,
            ProcessTable table,
            Duration settleLimit) {
        this.rank = rank;
        this.processes = List.copyOf(processes);
        this.companions = List.copyOf(companions);
        this.stoppedByJob = Set.copyOf(stoppedByJob);
        this.table = table;
        this.signals = new SignalSender(table);
        if (!settleLimit.isZero()) {
            // Where the kernel does not tell, this is a wait for as long as it may take.
            Polling.until(settleLimit, () -> this.processes.stream().allMatch(table::isOffProcessor));
        }
        this.times = timesNow();
    }

    private HeldRank(HeldRank other, Set<ProcessIdentity> stoppedByJob) {
        this.rank = other.rank;
        this.processes = other.processes;
        this.companions = other.companions;
        this.stoppedByJob = Set.copyOf(stoppedByJob);
        this.table = other.table;
        this.signals = other.signals;
        this.times = other.times;
    }

    private Map<ProcessIdentity, RunTimes> timesNow() {
        Map<ProcessIdentity, RunTimes> now = new LinkedHashMap<>();
        processes.forEach(process -> now.put(process, RunTimes.of(table, process)));
        return now;
    }

    /**
     * A rank by what a journal says of it, after a restart of the service: its processes as recorded, those that
     * descend from them by now, and the init of the namespace that they live in. Processes that no longer exist stay in
     * both lists. How much they have run is noted again.
     *
     * @param stoppedByJob those that are never continued
     * @param now all processes, for every rank of the journal
     */
    public static HeldRank recorded(
            int rank, List<ProcessIdentity> recorded, Collection<ProcessIdentity> stoppedByJob, ProcessSnapshot now) {
        ProcessTable table = now.table();
        Set<ProcessIdentity> processes = new LinkedHashSet<>(recorded);
        Set<ProcessIdentity> companions = new LinkedHashSet<>();
        for (ProcessIdentity process : recorded) {
            if (table.isAlive(process)) {
                processes.addAll(now.tree(process));
                RankNamespace.around(table, now, process).ifPresent(namespace -> companions.add(namespace.init()));
            }
        }
        return new HeldRank(
                rank, List.copyOf(processes), List.copyOf(companions), Set.copyOf(stoppedByJob), table, Duration.ZERO);
    }

    public int rank() {
        return rank;
    }

    /** All its processes, the root first; PIDs as this node's service sees them. */
    public List<ProcessIdentity> processes() {
        return processes;
    }

    /**
     * Returns the processes that end with the rank and are never stopped: its namespace's init, its {@code cr_restart}.
     */
    public List<ProcessIdentity> helperProcesses() {
        return companions;
    }

    /**
     * Proves again that every process is alive, that every one of its threads is stopped, and that none has run since
     * the rank was found held; throws and says which is not.
     */
    public void requireHeld() throws CheckpointException {
        if (processes.isEmpty()) {
            throw new CheckpointException("rank " + rank + " is not held: none of its processes is known");
        }
        for (ProcessIdentity process : processes) {
            Optional<String> whyNot = times.get(process).whyNotHeld(table, process);
            if (whyNot.isPresent()) {
                throw new CheckpointException("rank " + rank + " is not held: " + whyNot.get());
            }
        }
    }

    /** Returns whether {@link #requireHeld} proves it; the log says at level debug why not. */
    public boolean isHeld() {
        try {
            requireHeld();
            return true;
        } catch (CheckpointException e) {
            LOG.debug("rank {}: {}", rank, e.getMessage());
            return false;
        }
    }

    /** Returns those of them that the job itself had stopped before the rank was held: they are never continued. */
    public Set<ProcessIdentity> stoppedByJob() {
        return stoppedByJob;
    }

    /** The same rank with these as {@link #stoppedByJob}. */
    public HeldRank withStoppedByJob(Set<ProcessIdentity> stopped) {
        return new HeldRank(this, stopped);
    }

    /** Lets the processes run (SIGCONT), except for {@link #stoppedByJob}. */
    public void release() throws CheckpointException {
        rethrow(releaseAll(List.of(this)));
    }

    /**
     * Ends the processes (SIGKILL) and returns when they are gone; throws by name what is left after {@code deadline}.
     */
    public void end(Duration deadline) throws CheckpointException, InterruptedException {
        rethrow(endAll(List.of(this), deadline));
        if (Thread.interrupted()) {
            throw new InterruptedException("interrupted while rank " + rank + " was being ended; it has ended");
        }
    }

    private void rethrow(Map<Integer, String> failures) throws CheckpointException {
        if (failures.containsKey(rank)) {
            throw new CheckpointException(failures.get(rank));
        }
    }

    /**
     * Lets all of them run (SIGCONT), except for what the job itself had stopped. An interrupt shortens no wait.
     *
     * @return why a rank could not be continued as it was, by rank; empty if all were
     */
    public static Map<Integer, String> releaseAll(Collection<HeldRank> ranks) {
        Map<Integer, String> failures = new LinkedHashMap<>();
        List<ProcessIdentity> all = new ArrayList<>();
        Set<ProcessIdentity> gone = new LinkedHashSet<>();
        try {
            for (HeldRank rank : ranks) {
                all.addAll(rank.inOrderOfRelease());
                rank.stoppedByJob.stream()
                        .filter(process -> !rank.table.isAlive(process))
                        .forEach(gone::add);
            }
            if (!all.isEmpty()) {
                gone.addAll(ranks.iterator().next().signals.sendAll(Signal.CONT, all));
            }
        } catch (CheckpointException | RuntimeException e) {
            ranks.forEach(rank -> failures.put(rank.rank, "rank " + rank.rank + ": " + e.getMessage()));
            return failures;
        }
        for (HeldRank rank : ranks) {
            List<Integer> lost = pids(rank.processes, gone::contains);
            if (!lost.isEmpty()) {
                failures.put(rank.rank, "rank " + rank.rank + " cannot continue as it was: PIDs " + lost + " are gone");
            }
        }
        return failures;
    }

    /**
     * Ends all of them (SIGKILL), and returns when they are gone. An interrupt shortens no wait and stays set.
     *
     * @param deadline how long to wait for them
     * @return what is left after it, by rank; empty if nothing is
     */
    public static Map<Integer, String> endAll(Collection<HeldRank> ranks, Duration deadline) {
        Map<Integer, String> failures = new LinkedHashMap<>();
        List<ProcessIdentity> all =
                ranks.stream().flatMap(rank -> rank.whole().stream()).toList();
        if (all.isEmpty()) {
            return failures;
        }
        try {
            ProcessTable table = new ProcessTable();
            String why = " " + deadline + " after SIGKILL. Remedy: a process in state D waits for its filesystem; abort"
                    + " that mount";
            try {
                ranks.iterator().next().signals.sendAll(Signal.KILL, all);
            } catch (CheckpointException e) {
                why = ": " + e.getMessage();
            }
            if (!Polling.until(deadline, () -> all.stream().noneMatch(table::isAlive))) {
                for (HeldRank rank : ranks) {
                    List<Integer> left = pids(rank.whole(), table::isAlive);
                    if (!left.isEmpty()) {
                        failures.put(rank.rank, "rank " + rank.rank + ": PIDs " + left + " are still there" + why);
                    }
                }
            }
        } catch (RuntimeException e) {
            ranks.forEach(rank -> failures.put(rank.rank, "rank " + rank.rank + ": " + e.getMessage()));
        }
        return failures;
    }

    private static List<Integer> pids(List<ProcessIdentity> processes, Predicate<ProcessIdentity> which) {
        return processes.stream().filter(which).map(ProcessIdentity::pid).toList();
    }

    /** Children first: a parent that runs finds its children as they were. What the job had stopped is not in it. */
    private List<ProcessIdentity> inOrderOfRelease() {
        List<ProcessIdentity> order = new ArrayList<>(processes);
        order.removeAll(stoppedByJob);
        Collections.reverse(order);
        return order;
    }

    /** The rank and what ends with it. */
    private List<ProcessIdentity> whole() {
        List<ProcessIdentity> all = new ArrayList<>(processes);
        all.addAll(companions);
        return all;
    }

    @Override
    public String toString() {
        return "rank " + rank + " "
                + processes.stream().map(ProcessIdentity::pid).toList();
    }
}
