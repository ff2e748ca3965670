package io.ppmr.source;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import java.net.InetSocketAddress;
import java.util.List;

/**
 * A job whose processes on this node can be moved.
 *
 * @param name as the job manager knows it
 * @param user whose processes they are
 * @param checkpointer what checkpoints them
 * @param ranks one for each root process
 * @param spares the spare nodes that are asked for it, in order; empty for those of the configuration
 */
public record Job(
        String name, JobUser user, Checkpointer checkpointer, List<RankProcess> ranks, List<InetSocketAddress> spares) {

    /** The root process of a rank, by its PID on this node. */
    public record RankProcess(int rank, int pid) {}

    public Job {
        ranks = List.copyOf(ranks);
        spares = List.copyOf(spares);
    }

    /** One that has no spare nodes of its own. */
    public Job(String name, JobUser user, Checkpointer checkpointer, List<RankProcess> ranks) {
        this(name, user, checkpointer, ranks, List.of());
    }
}
