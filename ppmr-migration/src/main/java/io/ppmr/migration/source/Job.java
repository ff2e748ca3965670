package io.ppmr.migration.source;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.protocol.control.PodFacts;
import java.util.List;
import java.util.Map;

/**
 * A job whose processes on this node can be moved.
 *
 * @param name its name at the job manager
 * @param user user of its processes
 * @param checkpointer checkpointer of its ranks
 * @param ranks one for each root process
 * @param others ranks on other nodes, with their nodes, for the reconnect hook's map
 * @param hooks commands for its library
 * @param pods the pod of each rank; empty for a job without pods
 */
public record Job(
        String name,
        JobUser user,
        Checkpointer checkpointer,
        List<RankProcess> ranks,
        Map<Integer, String> others,
        JobHooks hooks,
        Map<Integer, PodFacts> pods) {

    /** The root process of a rank, by its PID on this node. */
    public record RankProcess(int rank, int pid) {}

    public Job {
        ranks = List.copyOf(ranks);
        others = Map.copyOf(others);
        pods = Map.copyOf(pods);
    }

    /** Makes a job without hooks whose ranks are all on this node. */
    public Job(String name, JobUser user, Checkpointer checkpointer, List<RankProcess> ranks) {
        this(name, user, checkpointer, ranks, Map.of(), JobHooks.NONE, Map.of());
    }

    /** Returns the facts for its hooks. */
    JobNotes notes() {
        return new JobNotes(name, ranks.stream().map(RankProcess::rank).toList(), others, hooks);
    }
}
