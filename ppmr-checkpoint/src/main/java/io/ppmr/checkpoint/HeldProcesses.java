package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The processes of a rank that are stopped, with those that exist only for their sake. Immutable; for any thread. It
 * can be made anew from recorded identities, by a service that was restarted.
 *
 * <p>How much each thread has run is noted when this is made, and {@link #requireHeld} compares: a process that was
 * continued and stopped again between two looks shows by that.
 */
public final class HeldProcesses implements HeldRank {
    /** A thread that shows as stopped may stay on a processor's queue for so long. */
    private static final Duration SETTLE_LIMIT = Duration.ofMillis(500);

    private final int rank;
    private final List<ProcessIdentity> processes;
    private final List<ProcessIdentity> companions;
    private final Set<ProcessIdentity> stoppedByJob;
    private final Map<ProcessIdentity, List<ThreadTimes>> times;
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
    public HeldProcesses(int rank, List<ProcessIdentity> processes, List<ProcessIdentity> companions) {
        this(rank, processes, companions, Set.of(), new ProcessTable(), SETTLE_LIMIT);
    }

    private HeldProcesses(
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
        // Where the kernel does not tell, this is a wait for as long as it may take.
        Polling.untilTrue(settleLimit, () -> this.processes.stream().allMatch(table::isOffProcessor));
        this.times = timesNow();
    }

    private HeldProcesses(HeldProcesses other, Set<ProcessIdentity> stoppedByJob) {
        this.rank = other.rank;
        this.processes = other.processes;
        this.companions = other.companions;
        this.stoppedByJob = Set.copyOf(stoppedByJob);
        this.table = other.table;
        this.signals = other.signals;
        this.times = other.times;
    }

    private Map<ProcessIdentity, List<ThreadTimes>> timesNow() {
        Map<ProcessIdentity, List<ThreadTimes>> now = new LinkedHashMap<>();
        processes.forEach(process -> now.put(process, table.times(process)));
        return now;
    }

    /**
     * A rank by what a journal says of it, after a restart of the service: its processes as recorded, those that
     * descend
     * from them by now, and the init of the namespace that they live in. What is gone is left out of neither. How much
     * they have run is noted anew.
     *
     * @param stoppedByJob those that are never set going
     */
    public static HeldProcesses recorded(
            int rank, List<ProcessIdentity> recorded, Collection<ProcessIdentity> stoppedByJob) {
        ProcessTable table = new ProcessTable();
        Set<ProcessIdentity> processes = new LinkedHashSet<>(recorded);
        Set<ProcessIdentity> companions = new LinkedHashSet<>();
        for (ProcessIdentity process : recorded) {
            if (table.isAlive(process)) {
                processes.addAll(table.tree(process));
                RankNamespace.around(table, process).ifPresent(namespace -> companions.add(namespace.init()));
            }
        }
        return new HeldProcesses(
                rank, List.copyOf(processes), List.copyOf(companions), Set.copyOf(stoppedByJob), table, Duration.ZERO);
    }

    @Override
    public int rank() {
        return rank;
    }

    @Override
    public List<ProcessIdentity> processes() {
        return processes;
    }

    /** What ends with the rank and is never stopped: its namespace's init, its {@code cr_restart}. */
    public List<ProcessIdentity> companions() {
        return companions;
    }

    @Override
    public void requireHeld() throws CheckpointException {
        var complaint = table.whyNotHeld(processes);
        if (complaint.isPresent()) {
            throw new CheckpointException("rank " + rank + " is not held: " + complaint.get());
        }
        for (ProcessIdentity process : processes) {
            List<ThreadTimes> before = times.get(process);
            List<ThreadTimes> now = table.times(process);
            if (!now.equals(before)) {
                throw new CheckpointException("rank " + rank + ": PID " + process.pid()
                        + " has run while it was held (somebody has continued it, as by SIGCONT): "
                        + difference(before, now));
            }
        }
    }

    private static String difference(List<ThreadTimes> before, List<ThreadTimes> now) {
        for (ThreadTimes thread : now) {
            for (ThreadTimes earlier : before) {
                if (earlier.thread() == thread.thread() && !earlier.equals(thread)) {
                    return thread.since(earlier);
                }
            }
        }
        return "it has other threads than before";
    }

    @Override
    public Set<ProcessIdentity> stoppedByJob() {
        return stoppedByJob;
    }

    @Override
    public HeldRank leavingStopped(Set<ProcessIdentity> stopped) {
        return new HeldProcesses(this, stopped);
    }

    @Override
    public void release() throws CheckpointException {
        HeldRanks.rethrow(HeldRanks.release(List.of(this)), rank);
    }

    @Override
    public void end(Duration deadline) throws CheckpointException, InterruptedException {
        HeldRanks.rethrow(HeldRanks.end(List.of(this), deadline), rank);
        if (Thread.interrupted()) {
            throw new InterruptedException("interrupted while rank " + rank + " was being ended; it has ended");
        }
    }

    /** Children first: a parent that runs finds its children as they were. What the job had stopped is not in it. */
    List<ProcessIdentity> inOrderOfRelease() {
        List<ProcessIdentity> order = new ArrayList<>(processes);
        order.removeAll(stoppedByJob);
        Collections.reverse(order);
        return order;
    }

    /** Finds which of these processes have ended. */
    List<ProcessIdentity> gone(Collection<ProcessIdentity> some) {
        return some.stream().filter(process -> !table.isAlive(process)).toList();
    }

    /** The rank and what ends with it. */
    List<ProcessIdentity> whole() {
        List<ProcessIdentity> all = new ArrayList<>(processes);
        all.addAll(companions);
        return all;
    }

    SignalSender signals() {
        return signals;
    }

    @Override
    public String toString() {
        return "rank " + rank + " "
                + processes.stream().map(ProcessIdentity::pid).toList();
    }
}
