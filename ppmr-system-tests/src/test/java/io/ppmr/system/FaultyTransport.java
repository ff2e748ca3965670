package io.ppmr.system;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.system.transport.ChunkWay;
import io.ppmr.system.transport.FaultyArrivals;
import io.ppmr.system.transport.FaultyPuller;
import io.ppmr.system.transport.MemoryChunkReceiver;
import io.ppmr.system.transport.MemoryChunkSender;
import io.ppmr.system.transport.SocketExporter;
import io.ppmr.system.transport.SocketPuller;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RailSender;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.Transport;
import io.ppmr.transport.tcp.TcpChunkReceiver;
import io.ppmr.transport.tcp.TcpChunkSender;
import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * A transport that replaces RDMA. Its target listens on a port of its own, and its chunks fail as configured.
 *
 * @param way how they get there
 * @param faults returns the fault of the next chunk, on any thread
 */
public record FaultyTransport(ChunkWay way, Supplier<FaultyPuller.Drawn> faults) implements Transport {
    private static final int CONNECTIONS = 2;
    private static final int SLICE_MS = 20;

    /** Returns the number of connections. One connection reports all writes. */
    private int connections() {
        return way == ChunkWay.WRITTEN ? 1 : CONNECTIONS;
    }

    @Override
    public SourcePath connect(BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException {
        List<SocketChannel> channels = new ArrayList<>();
        for (int i = 0; i < connections(); i++) {
            channels.add(SocketChannel.open(target));
        }
        return switch (way) {
            case SENT -> new TcpChunkSender(pool, channels, onFailure);
            case PULLED -> new SocketExporter(pool, channels, onFailure);
            case WRITTEN -> new MemoryChunkSender(pool, channels.get(0), onFailure);
        };
    }

    @Override
    public RailSender.RailConnection connectRail(
            BufferPool pool, InetAddress from, InetSocketAddress target, Duration deadline, Consumer<String> onFailure)
            throws IOException {
        return (RailSender.RailConnection) connect(pool, target, deadline, onFailure);
    }

    @Override
    public TransportListener listen(BufferPool pool, InetAddress address) throws IOException {
        ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress(address, 0));
        return new TransportListener() {
            @Override
            public int port() {
                return server.socket().getLocalPort();
            }

            @Override
            public TransportPeer accept(InetAddress from, Duration deadline, BooleanSupplier spoken)
                    throws IOException {
                long deadlineNs = System.nanoTime() + deadline.toNanos();
                server.socket().setSoTimeout(SLICE_MS);
                List<SocketChannel> channels = new ArrayList<>();
                boolean last;
                do {
                    last = spoken.getAsBoolean();
                    try {
                        channels.add(server.socket().accept().getChannel());
                        if (channels.size() == connections()) {
                            return new FaultyPeer(pool, channels);
                        }
                    } catch (SocketTimeoutException e) {
                        if (System.nanoTime() - deadlineNs > 0) {
                            throw e;
                        }
                    }
                } while (!last || !channels.isEmpty());
                return null;
            }

            @Override
            public void close() {
                closeNow(server);
            }
        };
    }

    private final class FaultyPeer implements TransportPeer {
        private final BufferPool pool;
        private final List<SocketChannel> channels;
        private final MemoryChunkReceiver written;

        private FaultyPeer(BufferPool pool, List<SocketChannel> channels) {
            this.pool = pool;
            this.channels = channels;
            written = way == ChunkWay.WRITTEN ? new MemoryChunkReceiver(pool, channels.get(0)) : null;
        }

        @Override
        public Optional<Writable> writable() {
            return Optional.ofNullable(written).map(MemoryChunkReceiver::writable);
        }

        @Override
        public void require(MemoryProof proof, Duration deadline) throws IOException {
            if (!proof.equals(MemoryProof.NONE)) {
                throw new IOException("the source promises what this transport does not have");
            }
        }

        @Override
        public TargetPath open(Arrivals arrivals) {
            return switch (way) {
                case SENT -> new TcpChunkReceiver(channels, new FaultyArrivals(pool, arrivals, faults));
                case PULLED ->
                    new FaultyPuller(
                            pool, arrivals, pull -> faults.get(), inner -> new SocketPuller(pool, channels, inner));
                case WRITTEN -> written.open(new FaultyArrivals(pool, arrivals, faults));
            };
        }

        @Override
        public String path() {
            return "a port of its own";
        }

        @Override
        public void close() {
            channels.forEach(FaultyTransport::closeNow);
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
