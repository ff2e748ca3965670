package io.ppmr.checkpoint.sharing;

import io.ppmr.os.ProcStat;
import io.ppmr.os.UnixSocket;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The result of one look at a node for a job, and for the processes that share something with it. Immutable.
 *
 * @param holds of the ranks' processes; of others those of objects that matter to a rank
 * @param references of the ranks' processes to others
 * @param sockets the Unix sockets in the ranks' network namespaces, by number
 * @param processes all processes of the node, by PID
 * @param users the user of processes from which ranks descend, by PID
 * @param movableSockets numbers of sockets whose connection to the outside is dealt with otherwise
 * @param unseen how many processes may not be looked at
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
