package io.ppmr.transport.tcp;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/**
 * Two connected ends of one TCP connection inside this process.
 *
 * @param near one end
 * @param far the other
 */
public record LoopbackPair(SocketChannel near, SocketChannel far) {

    /** Connects a new pair; a foreign connection in between is closed. */
    public static LoopbackPair open() throws IOException {
        try (ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            SocketChannel near = SocketChannel.open(server.getLocalAddress());
            try {
                SocketChannel far = server.accept();
                while (!far.getRemoteAddress().equals(near.getLocalAddress())) {
                    far.close();
                    far = server.accept();
                }
                near.setOption(StandardSocketOptions.TCP_NODELAY, true);
                far.setOption(StandardSocketOptions.TCP_NODELAY, true);
                return new LoopbackPair(near, far);
            } catch (IOException e) {
                near.close();
                throw e;
            }
        }
    }
}
