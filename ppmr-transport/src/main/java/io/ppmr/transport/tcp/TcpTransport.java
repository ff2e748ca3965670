package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.Transport;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * TCP for one session, at either end. Its data connections go to the port of the control connection, and each proves in
 * its handshake that it belongs to the session. So no port is sent to the source, and no memory proof is needed.
 */
public final class TcpTransport implements Transport {
    private static final Logger LOG = LoggerFactory.getLogger(TcpTransport.class);

    private final Connections connections;

    /** Opens the session's authenticated data connections at the source, and accepts them at the target. */
    @FunctionalInterface
    public interface Connections {
        List<SocketChannel> open(Duration deadline) throws IOException, InterruptedException;
    }

    public TcpTransport(Connections connections) {
        this.connections = connections;
    }

    @Override
    public SourcePath connect(BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException, InterruptedException {
        return new TcpChunkSender(pool, connections.open(deadline), onFailure);
    }

    @Override
    public TransportListener listen(BufferPool pool, InetAddress address) {
        return new TransportListener() {
            @Override
            public int port() {
                return 0;
            }

            @Override
            public TransportPeer accept(InetAddress from, Duration deadline, BooleanSupplier reported)
                    throws IOException, InterruptedException {
                return new TcpPeer(connections.open(deadline));
            }

            @Override
            public void close() {
                // The control connections' listener also accepts the data connections, and continues.
            }
        };
    }

    private record TcpPeer(List<SocketChannel> channels) implements TransportPeer {
        @Override
        public void require(MemoryProof proof, Duration deadline) {
            // The handshake of each connection proved it.
        }

        @Override
        public TargetPath open(Arrivals arrivals) {
            return new TcpChunkReceiver(channels, arrivals);
        }

        @Override
        public String path() {
            return channels.size() + " data connections";
        }

        @Override
        public void close() {
            for (SocketChannel channel : channels) {
                try {
                    channel.close();
                } catch (IOException e) {
                    LOG.warn("closing a data connection: {}", e.toString());
                }
            }
        }
    }
}
