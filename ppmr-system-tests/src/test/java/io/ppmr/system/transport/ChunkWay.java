package io.ppmr.system.transport;

/** Names how chunks get to the target in a test: the three ways that the product's transports have. */
public enum ChunkWay {
    /** The target pulls, as by RDMA Read. */
    PULLED,
    /** The source sends through a socket, as over TCP. */
    SENT,
    /** The source writes into the target's memory, as by RDMA Write. */
    WRITTEN
}
