package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessIdentity;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Names the processes of a rank that the job itself had stopped before it was held. Another node finds them by this
 * among the restored ones. Immutable.
 *
 * @param pids the PID of every process in its own PID namespace, the root's first, parents before children, and
 *     children in the order of their start
 * @param parents for each process, the place of its parent in that list; -1 for the root, and for a parent that is
 *     not in it
 * @param stopped places of the stopped processes
 */
public record StoppedProcesses(List<Integer> pids, List<Integer> parents, List<Integer> stopped) {
    /** Maximum number of processes that fit a message. */
    private static final int MOST = 4096;

    public StoppedProcesses {
        pids = List.copyOf(pids);
        parents = List.copyOf(parents);
        stopped = List.copyOf(stopped);
    }

    /** Describes the stopped processes of a held rank. */
    public static StoppedProcesses of(HeldRank rank) throws CheckpointException {
        ProcessTable table = new ProcessTable();
        List<ProcessIdentity> order = table.inOrderOfBirth(rank.processes());
        if (order.size() > MOST) {
            throw new CheckpointException("rank " + rank.rank() + " has " + order.size() + " processes, of which "
                    + rank.stoppedByJob().size() + " were stopped before it was held. A message has room for at most "
                    + MOST + " processes. Remedy: continue the stopped ones (kill -CONT) and move the job then");
        }
        List<Integer> stopped = new ArrayList<>();
        for (ProcessIdentity process : rank.stoppedByJob()) {
            stopped.add(order.indexOf(process));
        }
        return new StoppedProcesses(pidsInside(table, order), parents(table, order), stopped);
    }

    /**
     * Finds the stopped processes among the copies. If the restart kept the originals' PIDs, these identify them.
     * Otherwise their places in the tree do.
     *
     * @param copy held processes of the same rank that were restored
     */
    public Set<ProcessIdentity> among(HeldRank copy) throws CheckpointException {
        ProcessTable table = new ProcessTable();
        List<ProcessIdentity> order = table.inOrderOfBirth(copy.processes());
        List<Integer> copied = pidsInside(table, order);
        Set<ProcessIdentity> found = new LinkedHashSet<>();
        boolean byPid = Set.copyOf(copied).equals(Set.copyOf(pids));
        for (int place : stopped) {
            boolean known = place >= 0 && place < pids.size() && copied.size() == pids.size();
            if (!known || !(byPid || parents.equals(parents(table, order)))) {
                throw new CheckpointException("rank " + copy.rank() + ": the job itself had stopped " + stopped.size()
                        + " of its " + pids.size() + " processes. Which of the " + order.size()
                        + " copies must stay stopped is unknown, because they have neither equal PIDs nor equal"
                        + " parents."
                        + " Remedy: continue those processes (kill -CONT) and move the job then");
            }
            found.add(order.get(byPid ? copied.indexOf(pids.get(place)) : place));
        }
        return found;
    }

    private static List<Integer> pidsInside(ProcessTable table, List<ProcessIdentity> order)
            throws CheckpointException {
        List<Integer> pids = new ArrayList<>();
        for (ProcessIdentity process : order) {
            pids.add(table.pidInside(process));
        }
        return pids;
    }

    private static List<Integer> parents(ProcessTable table, List<ProcessIdentity> order) {
        Map<Integer, Integer> places = new HashMap<>();
        for (int place = 0; place < order.size(); place++) {
            places.put(order.get(place).pid(), place);
        }
        return order.stream()
                .map(process -> places.getOrDefault(table.parent(process), -1))
                .toList();
    }
}
