package io.ppmr.transport;

import java.net.InetSocketAddress;
import java.util.Optional;

/**
 * A network for chunks, as a node's configuration has it. Immutable.
 *
 * @param name of the network: the rails of two nodes that have the same name belong together
 * @param address this node's on it: where a target listens, where a source's connections leave from; empty at a source
 *     for what the kernel chooses
 * @param direct whether its chunks are written by RDMA; if not they go by data connections of TCP
 * @param priority at the source: chunks go to the working rails with the highest one
 * @param minBytes at the source: a smaller piece goes by another rail, if one works
 */
public record RailSettings(
        String name, Optional<InetSocketAddress> address, boolean direct, int priority, int minBytes) {}
