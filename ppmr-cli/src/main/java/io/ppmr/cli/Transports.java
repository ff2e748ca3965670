package io.ppmr.cli;

import io.ppmr.transport.DirectTransport;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.TransportWish;
import io.ppmr.transport.rdma.RdmaTransport;

/** What a service may use, as its configuration wishes it: the native library is loaded where RDMA may be. */
final class Transports {
    private Transports() {}

    static TransportChoice of(TransportWish wish) {
        return new TransportChoice(
                wish, wish.allowsRdma() ? RdmaTransport.load() : DirectTransport.none("the configuration says so"));
    }
}
