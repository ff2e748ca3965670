package io.ppmr.system.guest;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.testbed.Patience;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.PullsAlone;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.Transport;
import io.ppmr.transport.rdma.RdmaTransport;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * Two ends in this process, each on its own device of the guest: the source at 10.77.0.1, the target at 10.77.0.2.
 *
 * @param path the source's end, which has the target's memory if it writes
 * @param peer the target's, proved
 */
record RdmaPair(SourcePath path, Transport.TransportPeer peer) {
    static final Duration DEADLINE = Patience.of(Duration.ofSeconds(60));
    private static final int SOURCE = 1;
    private static final int TARGET = 2;

    /** The source's end of reads. */
    RegionExporter exporter() {
        return (RegionExporter) path;
    }

    /** The target's end from now on. */
    ChunkPuller puller(PullListener listener) {
        return (ChunkPuller) peer.open(new PullsAlone(listener));
    }

    static InetAddress source() throws Exception {
        return address(SOURCE);
    }

    static InetAddress target() throws Exception {
        return address(TARGET);
    }

    static InetAddress address(int last) throws Exception {
        return InetAddress.getByAddress(new byte[] {10, 77, 0, (byte) last});
    }

    /** An attack by another peer while the two connect. */
    interface Attack {
        /** Called when the target listens and before the source connects. */
        void begin(int port) throws Exception;
    }

    static RdmaPair join(
            RdmaTransport transport, BufferPool source, BufferPool target, Consumer<String> onExporterFailure)
            throws Exception {
        return join(transport, source, target, onExporterFailure, port -> {});
    }

    /** Returns both ends connected as in a migration. Closes everything if that fails. */
    static RdmaPair join(
            RdmaTransport transport,
            BufferPool source,
            BufferPool target,
            Consumer<String> onExporterFailure,
            Attack attack)
            throws Exception {
        CompletableFuture<SourcePath> connecting = new CompletableFuture<>();
        try (Transport.TransportListener listener = transport.listen(target, target())) {
            InetSocketAddress at = new InetSocketAddress(target(), listener.port());
            Thread connector = new Thread(() -> {
                try {
                    attack.begin(at.getPort());
                    connecting.complete(transport.connect(source, at, DEADLINE, onExporterFailure));
                } catch (Exception e) {
                    connecting.completeExceptionally(e);
                }
            });
            connector.start();
            Transport.TransportPeer peer = listener.accept(source(), DEADLINE, connecting::isDone);
            try {
                SourcePath path = connecting.get(DEADLINE.toMillis(), TimeUnit.MILLISECONDS);
                peer.require(path.proof(), DEADLINE);
                return new RdmaPair(path, peer);
            } catch (Exception e) {
                if (peer != null) {
                    peer.close();
                }
                if (connecting.isDone() && !connecting.isCompletedExceptionally()) {
                    connecting.join().close();
                }
                throw e;
            }
        }
    }
}
