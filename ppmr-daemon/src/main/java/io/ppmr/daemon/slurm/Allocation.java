package io.ppmr.daemon.slurm;

import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import java.util.List;
import java.util.Map;

/**
 * What Slurm gave the job, and how it is used. Immutable.
 *
 * @param job its number
 * @param spares the nodes that start without a rank: the batch host first
 * @param computing the others
 * @param tasks how many ranks
 */
public record Allocation(String job, List<String> spares, List<String> computing, int tasks) {
    public Allocation {
        spares = List.copyOf(spares);
        computing = List.copyOf(computing);
    }

    /**
     * Splits the allocation.
     *
     * @param nodes all its nodes, the batch host first
     * @param wantedTasks null for as many a node as the job asked for
     * @param environment Slurm's, of the batch script
     */
    public static Allocation of(
            String job, List<String> nodes, int spares, Integer wantedTasks, Map<String, String> environment)
            throws CommandFailure {
        if (spares < 1 || nodes.size() <= spares) {
            throw new CommandFailure(
                    ExitCode.USAGE,
                    "the job has " + nodes.size() + " nodes, of which " + spares + " are to be spare: ask for one node"
                            + " more than the ranks need (sbatch --nodes), and give --spares of at least 1");
        }
        List<String> computing = nodes.subList(spares, nodes.size());
        String perNode = environment.getOrDefault("SLURM_NTASKS_PER_NODE", "");
        if (wantedTasks == null && !perNode.matches("[1-9]\\d{0,5}")) {
            throw new CommandFailure(
                    ExitCode.USAGE, "how many ranks? Give --ntasks, or ask for the job with sbatch --ntasks-per-node");
        }
        int tasks = wantedTasks == null ? Integer.parseInt(perNode) * computing.size() : wantedTasks;
        if (tasks < computing.size()) {
            throw new CommandFailure(
                    ExitCode.USAGE,
                    tasks + " ranks do not fill the " + computing.size() + " nodes that are no spare: raise --spares");
        }
        return new Allocation(job, nodes.subList(0, spares), computing, tasks);
    }
}
