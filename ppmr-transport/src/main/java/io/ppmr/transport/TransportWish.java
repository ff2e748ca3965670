package io.ppmr.transport;

/** What a node is told about its transport: to take the best that both nodes have, or this one and no other. */
public enum TransportWish {
    /** RDMA where a device, its library and a route to the peer are there, else TCP. */
    AUTO,
    RDMA,
    TCP;

    /** Whether RDMA may be used. */
    public boolean allowsRdma() {
        return this != TCP;
    }

    /** Whether TCP may be used. */
    public boolean allowsTcp() {
        return this != RDMA;
    }
}
