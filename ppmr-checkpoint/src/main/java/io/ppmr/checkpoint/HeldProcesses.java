package io.ppmr.checkpoint;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * The processes of a rank that are stopped, with those that exist only for their sake. Immutable; for any thread. It
 * can be made anew from recorded identities, by a service that was restarted.
 */
public final class HeldProcesses implements HeldRank {
    private final int rank;
    private final List<ProcessIdentity> processes;
    private final List<ProcessIdentity> companions;
    private final ProcessTable table;
    private final SignalSender signals;

    /**
     * @param rank the rank's number
     * @param processes its processes, the root first
     * @param companions what ends with them and is never stopped: a namespace's init, a {@code cr_restart}
     * @param programs where the native helpers are
     */
    public HeldProcesses(
            int rank, List<ProcessIdentity> processes, List<ProcessIdentity> companions, NativePrograms programs) {
        this.rank = rank;
        this.processes = List.copyOf(processes);
        this.companions = List.copyOf(companions);
        this.table = new ProcessTable();
        this.signals = new SignalSender(programs, table);
    }

    /**
     * A rank by what a journal says of it, after a restart of the service: its processes as recorded, those that
     * descend
     * from them by now, and the init of the namespace that they live in. What is gone is left out of neither.
     */
    public static HeldProcesses recorded(int rank, List<ProcessIdentity> recorded, NativePrograms programs)
            throws CheckpointException {
        ProcessTable table = new ProcessTable();
        Set<ProcessIdentity> processes = new LinkedHashSet<>(recorded);
        Set<ProcessIdentity> companions = new LinkedHashSet<>();
        for (ProcessIdentity process : recorded) {
            if (table.isAlive(process)) {
                processes.addAll(table.tree(process));
                RankNamespace.around(table, process).ifPresent(namespace -> companions.add(namespace.init()));
            }
        }
        return new HeldProcesses(rank, List.copyOf(processes), List.copyOf(companions), programs);
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

    /** Children first: a parent that runs finds its children running. */
    List<ProcessIdentity> inOrderOfRelease() {
        List<ProcessIdentity> order = new ArrayList<>(processes);
        Collections.reverse(order);
        return order;
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
