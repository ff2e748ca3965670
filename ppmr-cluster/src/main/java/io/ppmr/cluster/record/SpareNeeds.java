package io.ppmr.cluster.record;

/**
 * The needs of a job at the node where it continues. Immutable.
 *
 * @param host the node that the job leaves
 * @param zone the zone of that node; empty for none
 * @param where the zones in which a spare node may be
 * @param tool the checkpointer
 * @param memoryBytes the memory of its processes
 * @param stagingBytes the bytes that wait at the target until the image is complete
 */
public record SpareNeeds(String host, String zone, Where where, String tool, long memoryBytes, long stagingBytes) {
    /** The zones in which a spare node may be, seen from the node that the job leaves. */
    public enum Where {
        ANY,
        SAME,
        OTHER
    }
}
