package io.ppmr.bench.node;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;

/**
 * One side's connections of a run, without the handshake of a migration: both sides are this benchmark's children.
 *
 * @param control the control connection, which is made first
 * @param data the data connections
 */
record Connections(SocketChannel control, List<SocketChannel> data) {

    static Connections to(int port, int dataConnections) throws IOException {
        List<SocketChannel> channels = new ArrayList<>();
        for (int i = 0; i <= dataConnections; i++) {
            channels.add(noDelay(SocketChannel.open(new InetSocketAddress(InetAddress.getLoopbackAddress(), port))));
        }
        return new Connections(channels.get(0), channels.subList(1, channels.size()));
    }

    static SocketChannel noDelay(SocketChannel channel) throws IOException {
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        return channel;
    }
}
