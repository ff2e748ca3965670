package io.ppmr.source;

import java.util.List;
import java.util.Map;

/**
 * What hooks are told of a job; enough to end a migration that an earlier run of the service has begun.
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
