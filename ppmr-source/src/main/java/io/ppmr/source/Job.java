package io.ppmr.source;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import java.util.List;

/**
 * A job whose processes on this node can be moved.
 *
 * @param name as the job manager knows it
 * @param user whose processes they are
 * @param checkpointer what checkpoints them
 * @param ranks one for each root process
 */
public record Job(String name, JobUser user, Checkpointer checkpointer, List<RankProcess> ranks) {

    /** The root process of a rank, by its PID on this node. */
    public record RankProcess(int rank, int pid) {}

    public Job {
        ranks = List.copyOf(ranks);
    }
}
