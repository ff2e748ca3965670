package io.ppmr.transport.tcp;

import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.Transport;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.function.Consumer;

/**
 * The target's end of a session's rails over TCP before the first chunk.
 *
 * @param rails how many there are
 * @param link the session's
 * @param connections gives the session's data connections as they come, from when it is told who takes them
 */
public record TcpRailPeer(int rails, ControlLink link, Consumer<Consumer<SocketChannel>> connections)
        implements Transport.Peer {
    @Override
    public void require(MemoryProof proof, Duration deadline) {
        // The handshake of each connection proves it.
    }

    @Override
    public TargetPath open(Arrivals arrivals) {
        RailReceiver receiver = new RailReceiver(rails, arrivals, link);
        connections.accept(receiver::take);
        return receiver;
    }

    @Override
    public String path() {
        return rails + " rails";
    }

    @Override
    public void close() {
        // Connections that nobody has taken are the listener's.
    }
}
