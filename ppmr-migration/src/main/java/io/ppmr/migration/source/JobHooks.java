package io.ppmr.migration.source;

import io.ppmr.checkpoint.SiteCommand;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The commands by which a job's own library is told to be stopped and to continue (papers 2 and 3: suspend drains and
 * closes its endpoints, reconnect opens them to where the ranks are now). Each runs as the job's user, to its deadline.
 *
 * @param suspend before the first checkpoint: all ranks stop communicating, also those that stay
 * @param resume undoes it when the migration is called off
 * @param reconnect after the commit: is told where every rank is
 */
public record JobHooks(Optional<SiteCommand> suspend, Optional<SiteCommand> resume, Optional<SiteCommand> reconnect) {
    /** A job that needs none. */
    public static final JobHooks NONE = new JobHooks(Optional.empty(), Optional.empty(), Optional.empty());

    /**
     * The facts for the hooks of a job; enough to end a migration that an earlier run of the service has begun.
     *
     * @param name as the job manager knows it
     * @param ranks those on this node
     * @param others ranks elsewhere, by the node that each is on
     * @param hooks what its library is told
     */
    public record JobNotes(String name, List<Integer> ranks, Map<Integer, String> others, JobHooks hooks) {
        public JobNotes {
            ranks = List.copyOf(ranks);
            others = Map.copyOf(others);
        }
    }
}
