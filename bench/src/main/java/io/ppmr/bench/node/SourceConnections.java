package io.ppmr.bench.node;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.rdma.RdmaTransport;
import io.ppmr.transport.tcp.TcpRegionExporter;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * The source's side of a run's connections, without the handshake of a migration: both sides are this benchmark's
 * children.
 *
 * @param control the control connection, which is made first
 * @param exporter opens the pool to the target
 * @param proof what the target must be told to join: with RDMA the words of the {@link MemoryProof}
 */
record SourceConnections(SocketChannel control, RegionExporter exporter, String proof) {
    static final Duration DEADLINE = Duration.ofSeconds(30);

    /**
     * Connects to where {@link TargetConnections#begin} says it listens: {@code ADDRESS PORT}, and with RDMA its port.
     */
    static SourceConnections join(List<String> where, int dataConnections, BufferPool pool, Consumer<String> onFailure)
            throws IOException {
        InetSocketAddress target = new InetSocketAddress(where.get(0), Integer.parseInt(where.get(1)));
        SocketChannel control = noDelay(SocketChannel.open(target));
        if (where.size() > 2) {
            InetSocketAddress direct = new InetSocketAddress(target.getAddress(), Integer.parseInt(where.get(2)));
            RegionExporter exporter = RdmaTransport.load().connect(pool, direct, DEADLINE, onFailure);
            MemoryProof proof = exporter.proof();
            return new SourceConnections(control, exporter, proof.address() + " " + proof.key() + " " + proof.digest());
        }
        List<SocketChannel> data = new ArrayList<>();
        for (int i = 0; i < dataConnections; i++) {
            data.add(noDelay(SocketChannel.open(target)));
        }
        return new SourceConnections(control, new TcpRegionExporter(pool, data, onFailure), "");
    }

    static SocketChannel noDelay(SocketChannel channel) throws IOException {
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        return channel;
    }
}
