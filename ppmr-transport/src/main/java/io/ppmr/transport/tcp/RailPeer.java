package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage.OfferedRail;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.Transport;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;

/**
 * The target's end of a session's rails before the first chunk.
 *
 * @param rails the rails that were offered to the source
 * @param direct the transport of rails over RDMA; null if there is no such rail
 * @param pool the pool into which chunks are written
 * @param link the session's control link
 * @param connections registers a receiver of the session's data connections
 */
public record RailPeer(
        List<OfferedRail> rails,
        Transport direct,
        BufferPool pool,
        ControlLink link,
        Consumer<Consumer<SocketChannel>> connections)
        implements Transport.TransportPeer {
    @Override
    public void require(MemoryProof proof, Duration deadline) {
        // The handshake of each connection proves it, and each rail over RDMA has a separate proof.
    }

    @Override
    public TargetPath open(Arrivals arrivals) {
        RailReceiver receiver = new RailReceiver(rails, direct, pool, arrivals, link);
        connections.accept(receiver::accept);
        return receiver;
    }

    @Override
    public String path() {
        return rails.size() + " rails";
    }

    @Override
    public void close() {
        // Connections that were not passed on belong to the listener.
    }
}
