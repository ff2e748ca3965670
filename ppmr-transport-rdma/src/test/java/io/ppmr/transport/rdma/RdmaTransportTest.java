package io.ppmr.transport.rdma;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.transport.rdma.RdmaException.Step;
import java.io.IOException;
import java.net.InetAddress;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** What can be said without a device: everything that keeps RDMA off is a reason, not a crash. */
class RdmaTransportTest {
    private static final Duration SHORT = Duration.ofSeconds(1);

    @Test
    void shouldGiveAReasonWhenTheLibraryCannotBeLoaded() {
        for (Error failure : new Error[] {
            new UnsatisfiedLinkError("no disni in java.library.path"),
            new NoClassDefFoundError("Could not initialize class NativeDispatcher"),
            new ExceptionInInitializerError("init")
        }) {
            String why = RdmaTransport.probe(() -> {
                throw failure;
            });
            assertTrue(why.contains(failure.getMessage()) && why.contains("libibverbs-dev"), why);
        }
        String why = RdmaTransport.probe(() -> {
            throw new IOException("jverbs outdated, version found 31");
        });
        assertTrue(why.contains("does not fit: jverbs outdated"), why);
        assertNull(RdmaTransport.probe(() -> "a provider"));
    }

    @Test
    void shouldBeUnusableForTheLibrarysReasonEachTimeItIsAsked() {
        RdmaTransport without = new RdmaTransport("no library", SHORT);
        assertTrue(without.unusable().contains("no library"));
        assertTrue(without.unusable().contains("no library"));
    }

    @Test
    void shouldRefuseAddressesThatDisniDoesNotKnow() throws Exception {
        RdmaTransport transport = new RdmaTransport(null, SHORT);
        byte[] ofDocumentation = {0x20, 0x01, 0x0d, (byte) 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
        InetAddress six = InetAddress.getByAddress(ofDocumentation);
        assertTrue(transport.unreachable(six, SHORT).contains("IPv4 alone"));
        BufferPool pool = new BufferPool(new PoolGeometry(PoolGeometry.MIN_CHUNK_BYTES, PoolGeometry.MIN_CHUNKS));
        assertTrue(assertThrows(IOException.class, () -> transport.listen(pool, six))
                .getMessage()
                .contains("IPv4 alone"));
        String why = transport.unreachable(InetAddress.getLoopbackAddress(), SHORT);
        assertTrue(why.contains("loopback"), why);
    }

    @Test
    void shouldNameStatusDeviceAndPeerOfAFailedRead() {
        String said = ReadFailure.text(12, 4096, "mlx5_0, peer 192.0.2.7");
        assertTrue(
                said.startsWith("RDMA Read of 4096 bytes failed: IBV_WC_RETRY_EXC_ERR (mlx5_0, peer 192.0.2.7)"), said);
        assertTrue(ReadFailure.text(10, 1, "").contains("IBV_WC_REM_ACCESS_ERR"), "remote access");
        assertTrue(ReadFailure.text(5, 1, "").contains("IBV_WC_WR_FLUSH_ERR"), "flush");
        assertTrue(ReadFailure.text(99, 1, "").contains("status 99"), "unknown");
    }

    @Test
    void shouldNameTheStepThatFailed() {
        String refused = RdmaException.refused(Step.CONNECT, "192.0.2.7:1", EventType.RDMA_CM_EVENT_REJECTED)
                .getMessage();
        assertTrue(refused.contains("connecting (192.0.2.7:1) failed: RDMA_CM_EVENT_REJECTED"), refused);
        String late = RdmaException.late(Step.ROUTE, "192.0.2.7:1", 3000).getMessage();
        assertTrue(late.contains("resolving the route (192.0.2.7:1) has not ended within 3000 ms"), late);
    }
}
