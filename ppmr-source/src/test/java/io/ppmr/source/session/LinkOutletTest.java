package io.ppmr.source.session;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.tcp.TcpRegionExporter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** What a target may release. */
class LinkOutletTest {
    private static final int CHUNKS = 8;

    @Test
    void shouldRefuseAReleaseWhenTheChunkIsNotAdvertisedToThatTarget() throws Exception {
        BufferPool pool = new BufferPool(new PoolGeometry(16 * 1024, CHUNKS));
        try (ServerSocketChannel server =
                        ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
                SocketChannel near = SocketChannel.open(server.getLocalAddress());
                SocketChannel far = server.accept();
                ControlLink link = new ControlLink(near, 1, TimeUnit.SECONDS.toNanos(10));
                TcpRegionExporter one = new TcpRegionExporter(pool, List.of(), reason -> {});
                TcpRegionExporter other = new TcpRegionExporter(pool, List.of(), reason -> {})) {
            assertTrue(far.isConnected());
            LinkOutlet outlet = new LinkOutlet(link, one, new SourceHops(new SimpleMeterRegistry(), CHUNKS));
            one.permit(3, 0, 100);
            other.permit(4, 0, 100);
            outlet.released(3);
            for (int chunk : new int[] {3, 4, 0, -1, CHUNKS, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
                String message = assertThrows(ProtocolException.class, () -> outlet.released(chunk))
                        .getMessage();
                assertTrue(message.contains("chunk " + chunk + ", which is not advertised to it"), message);
            }
        }
    }
}
