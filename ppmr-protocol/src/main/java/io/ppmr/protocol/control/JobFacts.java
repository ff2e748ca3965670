package io.ppmr.protocol.control;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The needs of a job's processes at the node where they continue. Immutable.
 *
 * @param checkpointer the checkpointer; empty if only the nodes are compared
 * @param residentBytes an estimate of the image's size: private memory and open unnamed files
 * @param streamableBytes the part that the source can stream into the copies instead of writing it to an image; 0 if
 *     all of it is written to images
 * @param pids the PIDs in the job's own PID namespace
 * @param pods the pod of each rank; empty for a job without pods
 */
public record JobFacts(
        String checkpointer,
        long residentBytes,
        long streamableBytes,
        List<Integer> pids,
        Map<Integer, PodFacts> pods) {
    /** The facts of a check without a job: only the nodes are compared. */
    public static final JobFacts NONE = new JobFacts("", 0, 0, List.of());

    /** Creates the facts of a job without pods. */
    public JobFacts(String checkpointer, long residentBytes, long streamableBytes, List<Integer> pids) {
        this(checkpointer, residentBytes, streamableBytes, pids, Map.of());
    }

    /** Returns the same job with this much memory offered for streaming. */
    public JobFacts withStreamable(long bytes) {
        return new JobFacts(checkpointer, residentBytes, bytes, pids, pods);
    }

    /** Returns the same job with these pods as its ranks. */
    public JobFacts withPods(Map<Integer, PodFacts> ranks) {
        return new JobFacts(checkpointer, residentBytes, streamableBytes, List.of(), ranks);
    }

    public JobFacts {
        pids = List.copyOf(pids);
        pods = Collections.unmodifiableSortedMap(new TreeMap<>(pods));
    }
}
