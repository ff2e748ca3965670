package io.ppmr.bench.node;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.DirectListener;
import io.ppmr.transport.DirectPeer;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.rdma.RdmaTransport;
import io.ppmr.transport.tcp.TcpChunkPuller;
import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** The target's side of the connections: listens, and takes those of one run after the other. */
final class TargetEnd implements Closeable {
    private static final String RDMA = "rdma";

    private final boolean direct;
    private final BufferPool pool;
    private final ServerSocketChannel listener = ServerSocketChannel.open();
    private FutureTask<Joined> joining;
    private DirectPeer peer;

    /** A run's connections. */
    record Joined(SocketChannel control, Function<PullListener, ChunkPuller> puller) {}

    /** {@code words}: the transport's name and the address to listen at. */
    TargetEnd(List<String> words, BufferPool pool) throws IOException {
        this.direct = words.get(0).equals(RDMA);
        this.pool = pool;
        listener.bind(new InetSocketAddress(InetAddress.getByName(words.get(1)), 0));
    }

    /** Waits for a source from now on; gives where it is to connect to. */
    String begin(int dataConnections) throws IOException {
        InetSocketAddress at = (InetSocketAddress) listener.getLocalAddress();
        String where = at.getAddress().getHostAddress() + " " + at.getPort();
        if (direct) {
            DirectListener waiting = RdmaTransport.load().listen(pool, at.getAddress());
            where += " " + waiting.port();
            joining = new FutureTask<>(() -> acceptDirect(waiting));
        } else {
            joining = new FutureTask<>(() -> accept(dataConnections));
        }
        Thread thread = new Thread(joining, "bench-accept");
        thread.setDaemon(true);
        thread.start();
        return where;
    }

    private Joined accept(int dataConnections) throws IOException {
        SocketChannel control = SourceEnd.noDelay(listener.accept());
        List<SocketChannel> data = new ArrayList<>();
        for (int i = 0; i < dataConnections; i++) {
            data.add(SourceEnd.noDelay(listener.accept()));
        }
        return new Joined(control, pulls -> new TcpChunkPuller(pool, data, pulls));
    }

    private Joined acceptDirect(DirectListener waiting) throws IOException {
        try (DirectListener open = waiting) {
            SocketChannel control = SourceEnd.noDelay(listener.accept());
            InetAddress from = ((InetSocketAddress) control.getRemoteAddress()).getAddress();
            peer = open.accept(from, SourceEnd.DEADLINE, () -> false);
            return new Joined(control, peer::puller);
        }
    }

    /** The connections, when the source has made its own; {@code proof} is what it says with RDMA. */
    Joined join(List<String> proof) throws Exception {
        Joined joined = joining.get(SourceEnd.DEADLINE.toSeconds(), TimeUnit.SECONDS);
        if (direct) {
            peer.require(
                    new MemoryProof(Long.parseLong(proof.get(0)), Long.parseLong(proof.get(1)), proof.get(2)),
                    SourceEnd.DEADLINE);
        }
        return joined;
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
