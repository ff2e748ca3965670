package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.linux.ProcessIdentity;
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
 * A rank whose processes are all stopped, the originals after a checkpoint or the copies after a restart, with their
 * helper processes. Immutable; for any thread. A restarted service can make it again from recorded identities. Several
 * ranks of a job are signalled together and awaited together, so that the job's pause does not grow with its ranks.
 *
 * <p>The run time of each thread is noted when this is made, and {@link #requireHeld} compares it. This reveals a
 * process that was continued and stopped again between two checks.
 */
public final class HeldRank {
    private static final Logger LOG = LoggerFactory.getLogger(HeldRank.class);

    /** Time for which a thread that shows as stopped may stay on a processor's queue. */
    private static final Duration SETTLE_LIMIT = Duration.ofMillis(500);

    private final int rank;
    private final List<ProcessIdentity> processes;
    private final List<ProcessIdentity> helpers;
    private final Set<ProcessIdentity> stoppedByJob;
    private final Map<ProcessIdentity, RunTimes> times;
    private final ProcessTable table;
    private final SignalSender signals;

    /**
     * Makes a rank that was just found held. The command that stopped it ended, or does nothing more to it. This
     * waits until its threads have left their processors, which takes time only on a busy node. Then it notes their run
     * times.
     *
     * @param rank the rank's number
     * @param processes its processes, the root first
     * @param helpers helper processes that end with them and are never stopped: a namespace's init, a
     *     {@code cr_restart}
     */
    public HeldRank(int rank, List<ProcessIdentity> processes, List<ProcessIdentity> helpers) {
        this(rank, processes, helpers, Set.of(), new ProcessTable(), SETTLE_LIMIT);
    }

    /**
     * Makes a rank whose processes {@link ProcessTable#standstill} has just found stopped. Those that it found off
     * their processors need no further wait.
     */
    static HeldRank of(int rank, List<ProcessIdentity> processes, List<ProcessIdentity> helpers, StopState found) {
        Duration settleLimit = found.isOffProcessors() ? Duration.ZERO : SETTLE_LIMIT;
        return new HeldRank(rank, processes, helpers, Set.of(), new ProcessTable(), settleLimit);
    }

    private HeldRank(
            int rank,
            List<ProcessIdentity> processes,
            List<ProcessIdentity> helpers,
            Set<ProcessIdentity> stoppedByJob,
            ProcessTable table,
            Duration settleLimit) {
        this.rank = rank;
        this.processes = List.copyOf(processes);
        this.helpers = List.copyOf(helpers);
        this.stoppedByJob = Set.copyOf(stoppedByJob);
        this.table = table;
        this.signals = new SignalSender(table);
        if (!settleLimit.isZero()) {
            // If the kernel does not show the place, this waits for the whole limit.
            Polling.until(settleLimit, () -> this.processes.stream().allMatch(table::isOffProcessor));
        }
        this.times = timesNow();
    }

    private HeldRank(HeldRank other, Set<ProcessIdentity> stoppedByJob) {
        this.rank = other.rank;
        this.processes = other.processes;
        this.helpers = other.helpers;
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
     * Makes a rank from a journal's records, after a restart of the service. It consists of the recorded processes,
     * their present descendants, and the init of their namespace. Processes that no longer exist stay in both lists.
     * Their run times are noted again.
     *
     * @param stoppedByJob processes that are never continued
     * @param now all processes, for every rank of the journal
     */
    public static HeldRank recorded(
            int rank, List<ProcessIdentity> recorded, Collection<ProcessIdentity> stoppedByJob, ProcessSnapshot now) {
        ProcessTable table = now.table();
        Set<ProcessIdentity> processes = new LinkedHashSet<>(recorded);
        Set<ProcessIdentity> helpers = new LinkedHashSet<>();
        for (ProcessIdentity process : recorded) {
            if (table.isAlive(process)) {
                processes.addAll(now.tree(process));
                RankNamespace.around(table, now, process).ifPresent(namespace -> helpers.add(namespace.init()));
            }
        }
        return new HeldRank(
                rank, List.copyOf(processes), List.copyOf(helpers), Set.copyOf(stoppedByJob), table, Duration.ZERO);
    }

    public int rank() {
        return rank;
    }

    /** Returns all its processes, the root first, with the PIDs of this node's service. */
    public List<ProcessIdentity> processes() {
        return processes;
    }

    /**
     * Returns the processes that end with the rank and are never stopped: its namespace's init, its {@code cr_restart}.
     */
    public List<ProcessIdentity> helperProcesses() {
        return helpers;
    }

    /**
     * Proves again that every process is alive, that all its threads are stopped, and that none ran since the rank was
     * found held. Throws with the process that fails.
     */
    public void requireHeld() throws CheckpointException {
        if (processes.isEmpty()) {
            throw new CheckpointException("rank " + rank + " is not held: its processes are unknown");
        }
        for (ProcessIdentity process : processes) {
            Optional<String> whyNot = times.get(process).whyNotHeld(table, process);
            if (whyNot.isPresent()) {
                throw new CheckpointException("rank " + rank + " is not held: " + whyNot.get());
            }
        }
    }

    /** Returns whether {@link #requireHeld} succeeds. The debug log has the reason. */
    public boolean isHeld() {
        try {
            requireHeld();
            return true;
        } catch (CheckpointException e) {
            LOG.debug("rank {}: {}", rank, e.getMessage());
            return false;
        }
    }

    /** Returns its processes that the job itself had stopped before the rank was held. They are never continued. */
    public Set<ProcessIdentity> stoppedByJob() {
        return stoppedByJob;
    }

    /** Returns the rank with these processes as {@link #stoppedByJob}. */
    public HeldRank withStoppedByJob(Set<ProcessIdentity> stopped) {
        return new HeldRank(this, stopped);
    }

    /** Continues the processes (SIGCONT), except for {@link #stoppedByJob}. */
    public void release() throws CheckpointException {
        rethrow(releaseAll(List.of(this)));
    }

    /**
     * Kills the processes (SIGKILL) and returns when they are gone. Throws with the processes that are left after
     * {@code deadline}.
     */
    public void end(Duration deadline) throws CheckpointException, InterruptedException {
        rethrow(endAll(List.of(this), deadline));
        if (Thread.interrupted()) {
            throw new InterruptedException("interrupted while rank " + rank + " was being killed; it ended");
        }
    }

    private void rethrow(Map<Integer, String> failures) throws CheckpointException {
        if (failures.containsKey(rank)) {
            throw new CheckpointException(failures.get(rank));
        }
    }

    /**
     * Continues all ranks (SIGCONT), except for processes that the job itself had stopped. An interrupt shortens no
     * wait.
     *
     * @return for each rank that could not be continued as it was, the reason, or empty if all were
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
     * Kills all ranks (SIGKILL), and returns when they are gone. An interrupt shortens no wait and stays set.
     *
     * @param deadline time limit of the wait
     * @return the remaining processes, by rank, or empty if there are none
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
            SignalSender signals = new SignalSender(table);
            String why = " " + deadline + " after SIGKILL. Remedy: a process in state D waits for its filesystem; abort"
                    + " that mount";
            try {
                signals.sendAll(Signal.KILL, all);
            } catch (CheckpointException e) {
                why = ": " + e.getMessage();
            }
            long deadlineNs = System.nanoTime() + deadline.toNanos();
            all.forEach(process -> signals.awaitEnd(process, deadlineNs));
            Duration rest = Duration.ofNanos(Math.max(0, deadlineNs - System.nanoTime()));
            if (!Polling.until(rest, () -> all.stream().noneMatch(table::isAlive))) {
                for (HeldRank rank : ranks) {
                    List<Integer> left = pids(rank.whole(), table::isAlive);
                    if (!left.isEmpty()) {
                        failures.put(rank.rank, "rank " + rank.rank + ": PIDs " + left + " still exist" + why);
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

    /**
     * Returns the processes with children first, so that a running parent finds its children unchanged. Processes that
     * the job had stopped are left out.
     */
    private List<ProcessIdentity> inOrderOfRelease() {
        List<ProcessIdentity> order = new ArrayList<>(processes);
        order.removeAll(stoppedByJob);
        Collections.reverse(order);
        return order;
    }

    /** Returns the rank's processes and its helper processes. */
    private List<ProcessIdentity> whole() {
        List<ProcessIdentity> all = new ArrayList<>(processes);
        all.addAll(helpers);
        return all;
    }

    @Override
    public String toString() {
        return "rank " + rank + " "
                + processes.stream().map(ProcessIdentity::pid).toList();
    }
}
