package io.ppmr.migration.source;

import io.ppmr.checkpoint.SiteCommand;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The commands that notify a job's own library to stop and to continue (papers 2 and 3). Suspend drains and closes its
 * endpoints. Reconnect opens them to the ranks' new places. Each command runs as the job's user, to its deadline.
 *
 * @param suspend before the first checkpoint: all ranks stop communicating, also those that stay
 * @param resume undoes the suspension after a rollback
 * @param reconnect after the commit, with the node of every rank
 */
public record JobHooks(Optional<SiteCommand> suspend, Optional<SiteCommand> resume, Optional<SiteCommand> reconnect) {
    /** No hooks. */
    public static final JobHooks NONE = new JobHooks(Optional.empty(), Optional.empty(), Optional.empty());

    /**
     * The facts for the hooks of a job. They suffice to end a migration that an earlier run of the service began.
     *
     * @param name its name at the job manager
     * @param ranks ranks on this node
     * @param others ranks on other nodes, with their nodes
     * @param hooks commands for its library
     */
    public record JobNotes(String name, List<Integer> ranks, Map<Integer, String> others, JobHooks hooks) {
        public JobNotes {
            ranks = List.copyOf(ranks);
            others = Map.copyOf(others);
        }
    }
}
