package io.ppmr.transport;

import java.net.InetSocketAddress;
import java.util.Optional;

/**
 * A network for chunks in a node's configuration. Immutable.
 *
 * @param name the network's name: rails with equal names on two nodes belong together
 * @param address this node's address on it, where a target listens and from which a source connects; empty at a source
 *     to let the kernel choose
 * @param direct true for RDMA Write, false for data connections over TCP
 * @param priority at the source: chunks use the working rails with the highest priority
 * @param minBytes at the source: a smaller piece uses another rail, if one works
 */
public record RailSettings(
        String name, Optional<InetSocketAddress> address, boolean direct, int priority, int minBytes) {}
