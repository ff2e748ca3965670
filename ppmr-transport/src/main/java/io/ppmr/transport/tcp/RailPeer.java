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
 * @param rails those that the source was told of
 * @param direct by which the chunks of rails over RDMA are written; null where there is no such rail
 * @param pool into which they are written
 * @param link the session's
 * @param connections gives the session's data connections as they come, from when it is told who takes them
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
        // The handshake of each connection proves it, and each rail over RDMA has a proof of its own.
    }

    @Override
    public TargetPath open(Arrivals arrivals) {
        RailReceiver receiver = new RailReceiver(rails, direct, pool, arrivals, link);
        connections.accept(receiver::take);
        return receiver;
    }

    @Override
    public String path() {
        return rails.size() + " rails";
    }

    @Override
    public void close() {
        // Connections that were not taken belong to the listener.
    }
}
