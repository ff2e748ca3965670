package io.ppmr.checkpoint.sharing;

import io.ppmr.linux.ProcStat;
import io.ppmr.linux.UnixSocket;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The result of one scan of a node for a job, and for the processes that share objects with it. Immutable.
 *
 * @param holds the objects of the ranks' processes, and of other processes those that matter to a rank
 * @param references references of the ranks' processes to others
 * @param sockets the Unix sockets in the ranks' network namespaces, by number
 * @param processes all processes of the node, by PID
 * @param users users of the ranks' ancestors, by PID
 * @param movableSockets numbers of sockets whose connection to the outside is handled elsewhere
 * @param unseen number of processes that cannot be inspected
 */
public record JobHolds(
        List<Hold> holds,
        List<Reference> references,
        Map<Long, UnixSocket> sockets,
        Map<Integer, ProcStat> processes,
        Map<Integer, Integer> users,
        Set<Long> movableSockets,
        int unseen) {
    public JobHolds {
        holds = List.copyOf(holds);
        references = List.copyOf(references);
        sockets = Map.copyOf(sockets);
        processes = Map.copyOf(processes);
        users = Map.copyOf(users);
        movableSockets = Set.copyOf(movableSockets);
    }
}
