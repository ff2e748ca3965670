package io.ppmr.protocol.control;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The needs of a job's processes at the node where they continue. Immutable.
 *
 * @param checkpointer what checkpoints them; empty where only the nodes are compared
 * @param residentBytes the memory that is theirs alone, and the files without a name that they have open: an estimate
 *     of the image's size
 * @param streamableBytes of that, what the source would stream into the copies while it is still read, so that it need
 *     not wait as a part of an image; 0 if all of it is to go as images
 * @param pids the PIDs that they have, each as it sees itself
 * @param pods the pod that each rank is; empty for a job that is none
 */
public record JobFacts(
        String checkpointer,
        long residentBytes,
        long streamableBytes,
        List<Integer> pids,
        Map<Integer, PodFacts> pods) {
    /** No job: only the nodes are compared. */
    public static final JobFacts NONE = new JobFacts("", 0, 0, List.of());

    /** A job that is no pod. */
    public JobFacts(String checkpointer, long residentBytes, long streamableBytes, List<Integer> pids) {
        this(checkpointer, residentBytes, streamableBytes, pids, Map.of());
    }

    /** Returns the same job with this much memory offered for streaming. */
    public JobFacts withStreamable(long bytes) {
        return new JobFacts(checkpointer, residentBytes, bytes, pids, pods);
    }

    /** The same job, whose ranks are these pods. */
    public JobFacts asPods(Map<Integer, PodFacts> ranks) {
        return new JobFacts(checkpointer, residentBytes, streamableBytes, List.of(), ranks);
    }

    public JobFacts {
        pids = List.copyOf(pids);
        pods = Collections.unmodifiableSortedMap(new TreeMap<>(pods));
    }
}
