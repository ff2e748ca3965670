package io.ppmr.transport.tcp;

import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkReceiver;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;

/**
 * Receives chunks from data connections. Each connection's thread reads a chunk's frame, then its bytes directly into
 * the receive slot, and releases the chunk at the source. Several releases are sent together, after a millisecond at
 * most. They are sent at once if the source has few free chunks left.
 */
public final class TcpChunkReceiver implements ChunkReceiver {
    private final List<ReceivingConnection> connections = new ArrayList<>();

    /** Takes over connected and authenticated channels. */
    public TcpChunkReceiver(List<SocketChannel> channels, Arrivals arrivals) {
        this(channels, arrivals, ReceivingConnection.RELEASE_DELAY_NS);
    }

    /** @param releaseDelayNs maximum delay of a release, so that several are sent together */
    TcpChunkReceiver(List<SocketChannel> channels, Arrivals arrivals, long releaseDelayNs) {
        for (SocketChannel channel : channels) {
            connections.add(
                    new ReceivingConnection(channel, "ppmr-receive-" + connections.size(), arrivals, releaseDelayNs));
        }
        connections.forEach(DataConnection::start);
    }

    @Override
    public void close() {
        DataConnection.closeAll(connections);
    }
}
