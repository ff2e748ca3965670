package io.ppmr.protocol.control;

import io.ppmr.protocol.data.MemoryWay;
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
 * @param offer how the source would send the streamable part
 * @param pids the PIDs in the job's own PID namespace
 * @param pods the pod of each rank; empty for a job without pods
 */
public record JobFacts(
        String checkpointer,
        long residentBytes,
        long streamableBytes,
        MemoryWay offer,
        List<Integer> pids,
        Map<Integer, PodFacts> pods) {
    /** A running job's memory may grow by this fraction (1/n) while it is copied. */
    private static final int STORE_MARGIN = 4;

    private static final long LEAST_STORE_BYTES = 64L << 20;

    /** The facts of a check without a job: only the nodes are compared. */
    public static final JobFacts NONE = new JobFacts("", 0, 0, List.of());

    /** Creates the facts of a job without pods. */
    public JobFacts(String checkpointer, long residentBytes, long streamableBytes, List<Integer> pids) {
        this(
                checkpointer,
                residentBytes,
                streamableBytes,
                streamableBytes > 0 ? MemoryWay.STREAMED : MemoryWay.IMAGES,
                pids,
                Map.of());
    }

    /** Returns the same job with this much memory offered for streaming. */
    public JobFacts withStreamable(long bytes) {
        return with(bytes, bytes > 0 ? MemoryWay.STREAMED : MemoryWay.IMAGES);
    }

    /** Returns the same job with its streamable memory sent in this way. */
    public JobFacts sent(MemoryWay way) {
        return with(way == MemoryWay.IMAGES ? 0 : streamableBytes, way);
    }

    /** Returns the bytes that wait at the target until the image is complete, if its checkpointer's images wait. */
    public long waitingBytes() {
        long images = Math.max(0, residentBytes - streamableBytes);
        return offer == MemoryWay.PRECOPIED ? images + storeBytes() : images;
    }

    /** Returns the limit of the store of precopied memory, which grows while the job runs. */
    public long storeBytes() {
        return streamableBytes + streamableBytes / STORE_MARGIN + LEAST_STORE_BYTES;
    }

    private JobFacts with(long bytes, MemoryWay way) {
        return new JobFacts(checkpointer, residentBytes, bytes, way, pids, pods);
    }

    /** Returns the same job with these pods as its ranks. */
    public JobFacts withPods(Map<Integer, PodFacts> ranks) {
        return new JobFacts(checkpointer, residentBytes, streamableBytes, offer, List.of(), ranks);
    }

    public JobFacts {
        pids = List.copyOf(pids);
        pods = Collections.unmodifiableSortedMap(new TreeMap<>(pods));
    }
}
