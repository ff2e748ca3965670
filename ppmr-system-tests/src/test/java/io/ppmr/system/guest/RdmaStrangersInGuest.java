package io.ppmr.system.guest;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.testbed.Patience;
import io.ppmr.transport.AnswerBook;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.Loopback;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RemoteBlock;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.Transport;
import io.ppmr.transport.rdma.RdmaTransport;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Other hosts of the fabric, or other users of the source's node, attack while a source and a target connect. Each
 * attack costs only the attacker's own connection, and the connection setup continues.
 */
class RdmaStrangersInGuest {
    private static final Path STRANGER =
            Path.of(System.getProperty("ppmr.home"), "ppmr-transport-rdma/target/native-test/rdma-stranger");
    private static final int CHUNK_BYTES = 128 * 1024;
    private static final int CHUNKS = 8;
    private static final Duration SHORT = Duration.ofSeconds(5);
    private static final Duration LONG = Patience.of(Duration.ofSeconds(60));
    private static final String LEFT = "could not be destroyed";

    private final BufferPool sourcePool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final BufferPool targetPool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final BufferPool strangersPool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final List<String> failures = new ArrayList<>();
    private final RdmaTransport transport = RdmaTransport.load(RdmaMode.READ);
    private final List<AutoCloseable> strangers = new ArrayList<>();

    private final LogLines log = new LogLines();

    @AfterEach
    void endStrangers() throws Exception {
        log.close();
        for (AutoCloseable stranger : strangers) {
            stranger.close();
        }
    }

    @Test
    void shouldJoinWhenAHostOfAnotherAddressAsksFirst() throws Exception {
        joinsDespite(port -> asks("10.77.0.2", port, 2));
    }

    @Test
    void shouldJoinWhenTheSourcesAddressAsksFirstAndNeverEstablishes() throws Exception {
        joinsDespite(port -> asks("10.77.0.1", port, 3));
    }

    @Test
    void shouldJoinWhenTheSourcesAddressAsksMoreOftenThanThereIsRoomAndLeavesIt() throws Exception {
        joinsDespite(port -> {
            asks("10.77.0.1", port, 12);
            Loopback.until("room is made", LONG, () -> log.says("was not established in time"));
        });
    }

    @Test
    void shouldJoinWhenAnotherProcessAtTheSourcesAddressEstablishesFirst() throws Exception {
        joinsDespite(port -> {
            SourcePath stranger = transport.connect(
                    strangersPool, new InetSocketAddress(RdmaPair.target(), port), LONG, reason -> {});
            strangers.add(stranger);
        });
    }

    /** Joins while it is attacked, and the target then reads what is the source's. */
    private void joinsDespite(RdmaPair.Attack attack) throws Exception {
        byte[] promised = new byte[CHUNK_BYTES];
        Arrays.fill(promised, (byte) 7);
        sourcePool.buffer(0).duplicate().put(promised);
        RdmaPair pair = RdmaPair.join(transport, sourcePool, targetPool, failures::add, attack);
        AnswerBook answers = new AnswerBook();
        ChunkPuller puller = pair.puller(answers);
        try {
            RemoteBlock block = new RemoteBlock()
                    .set(pair.exporter().address(0), pair.exporter().key(), CHUNK_BYTES);
            puller.pull(0, block, 1, 0);
            Loopback.until("the pull is answered", LONG, () -> answers.answer(0) != null);
            assertEquals(AnswerBook.PULLED, answers.answer(0));
            byte[] got = new byte[CHUNK_BYTES];
            targetPool.buffer(1).duplicate().get(got);
            assertArrayEquals(promised, got);
        } finally {
            puller.close();
            pair.exporter().close();
        }
        assertFalse(log.says(LEFT), log::text);
        assertEquals(List.of(), failures);
    }

    /** The order in which a session ends them is the peer, and then its listener. */
    @Test
    void shouldLeaveNothingUndestroyedWhenThePeerIsClosedBeforeItsListener() throws Exception {
        for (boolean lateProof : new boolean[] {false, true}) {
            try (Transport.TransportListener listener = transport.listen(targetPool, RdmaPair.target())) {
                InetSocketAddress at = new InetSocketAddress(RdmaPair.target(), listener.port());
                MemoryProof[] real = new MemoryProof[1];
                Thread source = new Thread(() -> {
                    try {
                        SourcePath exporter = transport.connect(sourcePool, at, LONG, failures::add);
                        strangers.add(exporter);
                        real[0] = exporter.proof();
                    } catch (IOException e) {
                        failures.add(e.toString());
                    }
                });
                source.start();
                Transport.TransportPeer peer = listener.accept(RdmaPair.source(), LONG, () -> !source.isAlive());
                assertNotNull(peer, "a connection has come");
                if (lateProof) {
                    // The proof is never requested, because the control connection is lost before.
                    assertNotNull(real[0]);
                } else {
                    MemoryProof other =
                            new MemoryProof(real[0].address(), real[0].key(), MemoryProof.digest(new byte[1]));
                    IOException failure = assertThrows(IOException.class, () -> peer.require(other, SHORT));
                    assertTrue(failure.getMessage().contains("not the source of this session"), failure.getMessage());
                }
                peer.close();
            }
            assertFalse(log.says(LEFT), log::text);
            for (AutoCloseable stranger : strangers) {
                stranger.close();
            }
            strangers.clear();
        }
    }

    @Test
    void shouldRefuseADeviceOfIwarpAtBothEnds() throws Exception {
        Path type = Files.writeString(Files.createTempFile("node_type", ""), "4: RNIC\n", StandardCharsets.US_ASCII);
        List<String> shown = new ArrayList<>();
        try (Transport.TransportListener listener = transport.listen(targetPool, RdmaPair.target())) {
            for (String device : List.of("rxe0", "rxe1")) {
                String path = "/sys/class/infiniband/" + device + "/node_type";
                GuestLink.run("mount", "--bind", type.toString(), path);
                shown.add(path);
            }
            assertTrue(transport.unusable().contains("rxe0 is an iWARP device"), transport::unusable);
            String unreachable = transport.unreachable(RdmaPair.target(), LONG);
            assertTrue(unreachable.contains("rxe0 is an iWARP device"), unreachable);
            String atTarget = assertThrows(IOException.class, () -> transport.listen(targetPool, RdmaPair.target()))
                    .getMessage();
            assertTrue(atTarget.contains("rxe1 is an iWARP device"), atTarget);
            InetSocketAddress at = new InetSocketAddress(RdmaPair.target(), listener.port());
            String atSource = assertThrows(
                            IOException.class, () -> transport.connect(sourcePool, at, LONG, failures::add))
                    .getMessage();
            assertTrue(atSource.contains("rxe0 is an iWARP device"), atSource);
        } finally {
            for (String path : shown) {
                GuestLink.run("umount", path);
            }
        }
        assertNull(transport.unusable());
    }

    @Test
    void shouldSayWhichDeviceCannotBeOpened() throws Exception {
        // A cgroup refuses it in this way, even for root, independently of the file's mode.
        Path none = Files.createTempDirectory("no-devices");
        GuestLink.run("mknod", none.resolve("rdma_cm").toString(), "c", "240", "1");
        Files.setPosixFilePermissions(none.resolve("rdma_cm"), PosixFilePermissions.fromString("rw-rw-rw-"));
        GuestLink.run("mount", "--bind", none.toString(), "/dev/infiniband");
        try {
            assertTrue(transport.unusable().contains("rdma_cm cannot be opened: No such device"), transport::unusable);
        } finally {
            GuestLink.run("umount", "/dev/infiniband");
        }
        assertNull(transport.unusable());
    }

    /** Sends this number of requests from there, and waits until they are out. */
    private void asks(String from, int port, int times) throws Exception {
        Process process = new ProcessBuilder(
                        STRANGER.toString(), from, "10.77.0.2", String.valueOf(port), String.valueOf(times))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader said = process.inputReader(StandardCharsets.US_ASCII);
        strangers.add(() -> {
            process.getOutputStream().close();
            assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the stranger ends");
            said.lines().forEach(line -> System.out.println("stranger: " + line));
        });
        assertEquals("asked", said.readLine());
    }
}
