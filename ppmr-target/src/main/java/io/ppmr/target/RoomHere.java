package io.ppmr.target;

import io.ppmr.doctor.Room;
import io.ppmr.protocol.NodeFacts;
import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How much of what this node has is free for one more migration: those that are under way have been promised what they
 * will still take, and the place of staging may be fuller than its limit. Immutable.
 *
 * @param node this node, with as much staging as there is for one more
 * @param room what else limits it
 */
record RoomHere(NodeFacts node, Room room) {
    private static final Logger LOG = LoggerFactory.getLogger(RoomHere.class);
    private static final Set<String> MEMORY = Set.of("tmpfs", "ramfs");
    private static final long MIB = 1 << 20;

    /**
     * As it is just now.
     *
     * @param node what the node has
     * @param underWay the migrations that come to it
     */
    static RoomHere of(NodeFacts node, TargetSettings settings, Collection<Incoming> underWay) {
        Path directory = settings.transfer().stagingDirectory();
        boolean inMemory = false;
        long freeBytes = 0;
        try {
            FileStore store = Files.getFileStore(directory);
            inMemory = MEMORY.contains(store.type());
            freeBytes = store.getUsableSpace();
        } catch (IOException e) {
            LOG.warn("staging in {} has no room: {}", directory, e.getMessage());
        }
        long promisedStagingBytes =
                underWay.stream().mapToLong(Incoming::promisedStagingBytes).sum();
        boolean takesMemory = inMemory;
        long promisedBytes = underWay.stream()
                .mapToLong(incoming -> incoming.promisedMemoryBytes(takesMemory))
                .sum();
        long poolBytes = settings.pool().poolBytes();
        long limitBytes = Math.max(0, node.stagingBytes() - poolBytes);
        long leftBytes = Math.max(0, freeBytes - promisedStagingBytes);
        String why = leftBytes >= limitBytes
                ? ""
                : ", since " + directory + " has " + freeBytes / MIB + " MiB left"
                        + (promisedStagingBytes > 0
                                ? ", of which " + promisedStagingBytes / MIB + " MiB are for migrations under way"
                                : "");
        NodeFacts here = node.withStaging(poolBytes + Math.min(limitBytes, leftBytes));
        return new RoomHere(here, new Room(inMemory, promisedBytes, why));
    }
}
