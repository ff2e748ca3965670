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
 * @param name as the job manager knows it
 * @param user whose processes they are
 * @param checkpointer what checkpoints them
 * @param ranks one for each root process
 * @param others ranks that stay where they are, by the node that each is on; for the reconnect hook's map
 * @param hooks what its library is told
 * @param pods the pod that each rank is; empty for a job that is none
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

    /** A job whose ranks are all here, and whose library needs to be told nothing. */
    public Job(String name, JobUser user, Checkpointer checkpointer, List<RankProcess> ranks) {
        this(name, user, checkpointer, ranks, Map.of(), JobHooks.NONE, Map.of());
    }

    /** Returns the facts for its hooks. */
    JobNotes notes() {
        return new JobNotes(name, ranks.stream().map(RankProcess::rank).toList(), others, hooks);
    }
}
