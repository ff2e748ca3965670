package io.ppmr.system;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.testbed.FaultyPuller;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.Transport;
import io.ppmr.transport.tcp.TcpChunkPuller;
import io.ppmr.transport.tcp.TcpRegionExporter;
import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.LongFunction;

/**
 * A transport in the place of RDMA, whose target listens on a port of its own and whose pulls go wrong as told.
 *
 * @param faults gives the fault of a pull by its id
 */
record FaultyTransport(LongFunction<FaultyPuller.Drawn> faults) implements Transport {
    private static final int SLICE_MS = 20;

    @Override
    public RegionExporter connect(
            BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException {
        return new TcpRegionExporter(pool, List.of(SocketChannel.open(target)), onFailure);
    }

    @Override
    public Listener listen(BufferPool pool, InetAddress address) throws IOException {
        ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress(address, 0));
        return new Listener() {
            @Override
            public int port() {
                return server.socket().getLocalPort();
            }

            @Override
            public Peer accept(InetAddress from, Duration deadline, BooleanSupplier spoken) throws IOException {
                long deadlineNs = System.nanoTime() + deadline.toNanos();
                server.socket().setSoTimeout(SLICE_MS);
                boolean last;
                do {
                    last = spoken.getAsBoolean();
                    try {
                        return new FaultyPeer(pool, server.socket().accept().getChannel());
                    } catch (SocketTimeoutException e) {
                        if (System.nanoTime() - deadlineNs > 0) {
                            throw e;
                        }
                    }
                } while (!last);
                return null;
            }

            @Override
            public void close() {
                closeNow(server);
            }
        };
    }

    private final class FaultyPeer implements Peer {
        private final BufferPool pool;
        private final SocketChannel channel;

        private FaultyPeer(BufferPool pool, SocketChannel channel) {
            this.pool = pool;
            this.channel = channel;
        }

        @Override
        public void require(MemoryProof proof, Duration deadline) throws IOException {
            if (!proof.equals(MemoryProof.NONE)) {
                throw new IOException("the source promises what this transport does not have");
            }
        }

        @Override
        public ChunkPuller puller(PullListener listener) {
            return new FaultyPuller(pool, listener, faults, inner -> new TcpChunkPuller(pool, List.of(channel), inner));
        }

        @Override
        public String path() {
            return "a port of its own";
        }

        @Override
        public void close() {
            closeNow(channel);
        }
    }

    private static void closeNow(Closeable open) {
        try {
            open.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
