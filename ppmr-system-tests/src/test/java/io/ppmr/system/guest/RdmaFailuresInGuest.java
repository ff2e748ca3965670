package io.ppmr.system.guest;

import static org.junit.jupiter.api.Assertions.assertEquals;
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
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import io.ppmr.transport.Transport;
import io.ppmr.transport.rdma.RdmaTransport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Tests the failures of an RDMA network. Each is reported by name, in time, and every pull is answered once. */
class RdmaFailuresInGuest {
    private static final int CHUNK_BYTES = 128 * 1024;
    private static final int CHUNKS = 32;
    private static final Duration SHORT = Duration.ofSeconds(3);
    private static final Duration LONG = Patience.of(Duration.ofSeconds(60));
    /** The delay that the kernel and the emulation add. */
    private static final long SLACK_MS = 6_000;

    private final BufferPool sourcePool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final BufferPool targetPool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final List<String> exporterFailures = new CopyOnWriteArrayList<>();
    private final AnswerBook answers = new AnswerBook();
    private final RdmaTransport transport = RdmaTransport.load(RdmaMode.READ);

    @Test
    void shouldFindTheDevicesAndTheRoute() throws Exception {
        assertNull(transport.unusable());
        assertEquals(List.of("rxe0", "rxe1"), RdmaTransport.devices());
        assertNull(transport.unreachable(RdmaPair.target(), SHORT));
    }

    @Test
    void shouldSayInTimeWhenNobodyListens() throws Exception {
        String said = refused(new InetSocketAddress(RdmaPair.target(), 4));
        assertTrue(said.contains("RDMA_CM_EVENT_REJECTED") && said.contains("no service listens"), said);
    }

    @Test
    void shouldSayInTimeWhenTheAddressDropsPackets() throws Exception {
        GuestLink.run("ip", "neigh", "replace", "10.77.0.33", "lladdr", "02:00:00:00:00:33", "dev", "v0");
        GuestLink.run("ip", "route", "replace", "table", "77", "10.77.0.33", "dev", "v0", "src", "10.77.0.1");
        String said = refused(new InetSocketAddress(RdmaPair.address(33), 4711));
        assertTrue(said.contains("has not ended within") || said.contains("RDMA_CM_EVENT_UNREACHABLE"), said);
    }

    @Test
    void shouldSayInTimeWhenNoHostHasTheAddress() throws Exception {
        GuestLink.run("ip", "route", "replace", "table", "77", "10.77.0.34", "dev", "v0", "src", "10.77.0.1");
        String why = transport.unreachable(RdmaPair.address(34), SHORT);
        assertTrue(why.contains("resolving the address"), why);
    }

    /** Returns the error of a connection to that address, which must arrive in time. */
    private String refused(InetSocketAddress at) {
        long startNs = System.nanoTime();
        IOException failure =
                assertThrows(IOException.class, () -> transport.connect(sourcePool, at, SHORT, exporterFailures::add));
        long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
        assertTrue(tookMs < SHORT.toMillis() + SLACK_MS, tookMs + " ms");
        return failure.getMessage();
    }

    @Test
    void shouldSendAStrangerAwayWhenItConnectsInTheSourcesPlace() throws Exception {
        try (Transport.TransportListener listener = transport.listen(targetPool, RdmaPair.target())) {
            Thread stranger = new Thread(() -> {
                String said = refusedHere(listener.port());
                answers.onPullFailed(0, said);
            });
            stranger.start();
            assertThrows(IOException.class, () -> listener.accept(RdmaPair.address(9), SHORT, () -> false));
            stranger.join(SHORT.toMillis() + SLACK_MS);
        }
        assertTrue(answers.answer(0).contains("REJECTED"), answers.answer(0));
    }

    private String refusedHere(int port) {
        try {
            return refused(new InetSocketAddress(RdmaPair.target(), port));
        } catch (Exception e) {
            return String.valueOf(e);
        }
    }

    @Test
    void shouldNameTheStatusAndAnswerEachPullOnceWhenTheLinkGoesDown() throws Exception {
        RdmaPair pair = RdmaPair.join(transport, sourcePool, targetPool, exporterFailures::add);
        ChunkPuller puller = pair.puller(answers);
        try {
            GuestLink.down();
            int pulls = puller.depth();
            startPulls(pair, puller, pulls);
            RemoteBlock block = block(pair);
            assertThrows(IllegalStateException.class, () -> puller.pull(999, block, 0, 0), "beyond its depth");
            Loopback.until("the first answer comes", LONG, () -> answers.count() > 0);
            answers.requireEachOnce(pulls);
            for (long pull = 0; pull < pulls; pull++) {
                String said = answers.answer(pull);
                assertTrue(said.contains("IBV_WC_RETRY_EXC_ERR"), said);
                assertTrue(said.contains("rxe1, peer 10.77.0.1"), said);
            }
        } finally {
            puller.close();
            GuestLink.up();
            pair.exporter().close();
        }
    }

    @Test
    void shouldEndTheConnectionAndAnswerOnceFlushedWhenAReadIsPastItsDeadline() throws Exception {
        RdmaTransport impatient = RdmaTransport.load(RdmaMode.READ, Duration.ofMillis(500));
        RdmaPair pair = RdmaPair.join(impatient, sourcePool, targetPool, exporterFailures::add);
        ChunkPuller puller = pair.puller(answers);
        try {
            GuestLink.down();
            startPulls(pair, puller, CHUNKS);
            answers.requireEachOnce(CHUNKS);
            for (long pull = 0; pull < CHUNKS; pull++) {
                assertTrue(answers.answer(pull).contains("has not ended within 500 ms"), answers.answer(pull));
            }
        } finally {
            puller.close();
            GuestLink.up();
            pair.exporter().close();
        }
    }

    @Test
    void shouldAnswerWhatIsUnderWayAndWhatComesLaterWhenTheListenerThrows() throws Exception {
        RdmaPair pair = RdmaPair.join(transport, sourcePool, targetPool, exporterFailures::add);
        ChunkPuller puller = pair.puller(new PullListener() {
            @Override
            public void onPullCompleted(long pullId) {
                answers.onPullCompleted(pullId);
                throw new AssertionError("a listener that throws an Error");
            }

            @Override
            public void onPullFailed(long pullId, String reason) {
                answers.onPullFailed(pullId, reason);
                throw new IllegalStateException("a listener that throws");
            }
        });
        try {
            RemoteBlock block = block(pair);
            puller.pull(0, block, 0, 0);
            Loopback.until("the first pull is answered", LONG, () -> answers.answer(0) != null);
            assertEquals(AnswerBook.PULLED, answers.answer(0));
            // A few may be posted before the error is detected. Each is answered, and soon one has the reason of its
            // failure.
            int pulls = 1;
            do {
                int pull = pulls++;
                try {
                    puller.pull(pull, block, pull % CHUNKS, 0);
                } catch (IllegalStateException e) {
                    assertEquals("a listener that throws", e.getMessage());
                }
                Loopback.until("pull " + pull + " is answered", LONG, () -> answers.answer(pull) != null);
            } while (answers.answer(pulls - 1).equals(AnswerBook.PULLED) && pulls < CHUNKS);
            assertTrue(answers.answer(pulls - 1).contains("the result of pull 0"), answers.answer(pulls - 1));
            answers.requireEachOnce(pulls);
        } finally {
            puller.close();
            pair.exporter().close();
        }
    }

    @Test
    void shouldLogTheDevicesOwnEventsByNameWhenAPortGoesDown() throws Exception {
        RdmaPair pair = RdmaPair.join(transport, sourcePool, targetPool, exporterFailures::add);
        ChunkPuller puller = pair.puller(answers);
        try (LogLines log = new LogLines()) {
            GuestLink.down();
            untilSaid(log, "rxe0: IBV_EVENT_PORT_ERR, port 1");
            untilSaid(log, "rxe1: IBV_EVENT_PORT_ERR, port 1");
            GuestLink.up();
            untilSaid(log, "rxe0: IBV_EVENT_PORT_ACTIVE, port 1");
        } finally {
            GuestLink.up();
            puller.close();
            pair.exporter().close();
        }
    }

    private static void untilSaid(LogLines log, String event) throws Exception {
        Loopback.until("the log says " + event, LONG, () -> log.says("RDMA device " + event));
    }

    private static void startPulls(RdmaPair pair, ChunkPuller puller, int pulls) {
        RemoteBlock block = block(pair);
        for (int pull = 0; pull < pulls; pull++) {
            puller.pull(pull, block, pull % CHUNKS, 0);
        }
    }

    private static RemoteBlock block(RdmaPair pair) {
        return new RemoteBlock().set(pair.exporter().address(0), pair.exporter().key(), CHUNK_BYTES);
    }
}
