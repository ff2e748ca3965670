package io.ppmr.transport.tcp;

import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkReceiver;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;

/**
 * Takes chunks from data connections: the connection's own thread reads a chunk's frame and then its bytes straight
 * into the receive slot, has them checked and shown, and releases the chunk at the source. Releases go together, the
 * first of them after a millisecond at most; at once where the source says that it has few chunks left.
 */
public final class TcpChunkReceiver implements ChunkReceiver {
    private final List<ReceivingConnection> connections = new ArrayList<>();

    /** Takes over connected and authenticated channels. */
    public TcpChunkReceiver(List<SocketChannel> channels, Arrivals arrivals) {
        this(channels, arrivals, ReceivingConnection.RELEASES_WAIT_NS);
    }

    /** @param releasesWaitNs how long a release may wait for others to go with */
    TcpChunkReceiver(List<SocketChannel> channels, Arrivals arrivals, long releasesWaitNs) {
        for (SocketChannel channel : channels) {
            connections.add(
                    new ReceivingConnection(channel, "ppmr-receive-" + connections.size(), arrivals, releasesWaitNs));
        }
        connections.forEach(DataConnection::start);
    }

    @Override
    public void close() {
        DataConnection.closeAll(connections);
    }
}
