package io.ppmr.cluster.job;

import java.util.Map;
import java.util.TreeMap;

/**
 * The images that a node has written in a checkpoint. Immutable.
 *
 * @param digests a digest of the image of each pod
 * @param bytes the size of all of them
 * @param heldMs for how long the pods were held, in milliseconds
 * @param dumpMs the time of the dumps, in milliseconds
 * @param syncMs the time until they were on the disk, in milliseconds
 */
public record NodeImages(Map<String, String> digests, long bytes, long heldMs, long dumpMs, long syncMs) {
    public NodeImages {
        digests = Map.copyOf(new TreeMap<>(digests));
    }
}
