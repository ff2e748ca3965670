package io.ppmr.transport.rdma;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.transport.rdma.RdmaException.ConnectStep;
import java.io.IOException;
import java.net.InetAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the behaviour without a device: every obstacle to RDMA is a reason, not a crash. */
class RdmaTransportTest {
    private static final Duration SHORT = Duration.ofSeconds(1);

    @TempDir
    private Path root;

    @Test
    void shouldReturnAReasonWhenTheLibraryCannotBeLoaded() {
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
        assertTrue(why.contains("is not compatible: jverbs outdated"), why);
        assertNull(RdmaTransport.probe(() -> "a provider"));
    }

    @Test
    void shouldReturnTheLibrarysReasonAtEachCall() {
        RdmaTransport without = new RdmaTransport("no library", RdmaMode.READ, SHORT, Path.of("/"));
        assertTrue(without.unusable().contains("no library"));
        assertTrue(without.unusable().contains("no library"));
    }

    @Test
    void shouldBeUsableWhenOneDeviceOfTheRightTypeCanBeOpened() throws Exception {
        open("rdma_cm");
        device("uverbs0", "siw0", "4: RNIC");
        open("uverbs0");
        device("uverbs1", "mlx5_0", "1: CA");
        open("uverbs1");
        assertNull(here().unusable());
    }

    @Test
    void shouldRefuseEveryDeviceThatIsNeitherInfiniBandNorRoceByItsType() throws Exception {
        open("rdma_cm");
        device("uverbs0", "siw0", "4: RNIC");
        open("uverbs0");
        device("uverbs1", "usnic_0", "6: usNIC UDP");
        open("uverbs1");
        String why = here().unusable();
        assertTrue(why.contains("siw0 is an iWARP device (its type is \"4: RNIC\")"), why);
        assertTrue(why.contains("usnic_0 is not a device of InfiniBand or RoCE"), why);
    }

    @Test
    void shouldNameANodeThatCannotBeOpenedDespiteItsMode() throws Exception {
        device("uverbs0", "mlx5_0", "1: CA");
        assertTrue(here().unusable().contains("rdma_cm cannot be opened: it does not exist"), here()::unusable);
        // Simulates a device whose driver or cgroup refuses: its mode allows writing, but opening it fails.
        try (Socket manager = new Socket("rdma_cm")) {
            assertTrue(Files.isWritable(manager.path), "by its mode");
            assertTrue(here().unusable().contains("No such device or address"), here()::unusable);
        }
        open("rdma_cm");
        try (Socket device = new Socket("uverbs0")) {
            assertTrue(Files.isWritable(device.path), "by its mode");
            String why = here().unusable();
            assertTrue(why.contains("mlx5_0 cannot be opened") && why.contains("uverbs0: No such device"), why);
        }
        open("uverbs0");
        assertNull(here().unusable());
    }

    private RdmaTransport here() {
        return new RdmaTransport(null, RdmaMode.READ, SHORT, root);
    }

    private void device(String verbs, String name, String type) throws IOException {
        Path device =
                Files.createDirectories(root.resolve("sys/class/infiniband").resolve(name));
        Files.writeString(device.resolve("node_type"), type + "\n");
        Path shown = Files.createDirectories(
                root.resolve("sys/class/infiniband_verbs").resolve(verbs));
        Files.writeString(shown.resolve("ibdev"), name + "\n");
    }

    private Path node(String name) throws IOException {
        return Files.createDirectories(root.resolve("dev/infiniband")).resolve(name);
    }

    private void open(String name) throws IOException {
        Files.createFile(node(name));
    }

    /** A file that is writable by its mode and cannot be opened. */
    private final class Socket implements AutoCloseable {
        private final Path path;
        private final ServerSocketChannel bound = ServerSocketChannel.open(StandardProtocolFamily.UNIX);

        private Socket(String name) throws IOException {
            path = node(name);
            bound.bind(UnixDomainSocketAddress.of(path));
        }

        @Override
        public void close() throws IOException {
            bound.close();
            Files.delete(path);
        }
    }

    @Test
    void shouldRefuseAddressesThatDisniDoesNotSupport() throws Exception {
        RdmaTransport transport = new RdmaTransport(null, RdmaMode.READ, SHORT, Path.of("/"));
        byte[] ofDocumentation = {0x20, 0x01, 0x0d, (byte) 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7};
        InetAddress six = InetAddress.getByAddress(ofDocumentation);
        assertTrue(transport.unreachable(six, SHORT).contains("supports only IPv4"));
        BufferPool pool = new BufferPool(new PoolGeometry(PoolGeometry.MIN_CHUNK_BYTES, PoolGeometry.MIN_CHUNKS));
        assertTrue(assertThrows(IOException.class, () -> transport.listen(pool, six))
                .getMessage()
                .contains("supports only IPv4"));
        String why = transport.unreachable(InetAddress.getLoopbackAddress(), SHORT);
        assertTrue(why.contains("loopback"), why);
    }

    @Test
    void shouldNameStatusDeviceAndPeerOfAFailedRead() {
        String said = WorkFailure.text("RDMA Read of 4096 bytes", 12, "mlx5_0, peer 192.0.2.7");
        assertTrue(
                said.startsWith("RDMA Read of 4096 bytes failed: IBV_WC_RETRY_EXC_ERR (mlx5_0, peer 192.0.2.7)"), said);
        assertTrue(WorkFailure.text("", 10, "").contains("IBV_WC_REM_ACCESS_ERR"), "remote access");
        assertTrue(WorkFailure.text("", 5, "").contains("IBV_WC_WR_FLUSH_ERR"), "flush");
        assertTrue(WorkFailure.text("", 99, "").contains("status 99"), "unknown");
    }

    @Test
    void shouldNameTheStepThatFailed() {
        String refused = RdmaException.refused(ConnectStep.CONNECT, "192.0.2.7:1", EventType.RDMA_CM_EVENT_REJECTED)
                .getMessage();
        assertTrue(refused.contains("connecting (192.0.2.7:1) failed: RDMA_CM_EVENT_REJECTED"), refused);
        String late =
                RdmaException.timeout(ConnectStep.ROUTE, "192.0.2.7:1", 3000).getMessage();
        assertTrue(late.contains("resolving the route (192.0.2.7:1) did not end within 3000 ms"), late);
    }
}
