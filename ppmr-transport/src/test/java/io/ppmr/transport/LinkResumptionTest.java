package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.transport.LinkRunner.Taken;
import io.ppmr.transport.auth.PeerConnection;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.listen.PeerListener;
import io.ppmr.transport.tcp.Connector;
import io.ppmr.transport.tcp.ControlReconnector;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.LongStream;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Tests control links of both ends with a real listener between them, over two cables that are disconnected and reset.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LinkResumptionTest {
    private static final PreSharedKey KEY =
            new PreSharedKey("0123456789abcdef0123456789abcdef".getBytes(StandardCharsets.US_ASCII));
    private static final int ATTEMPT = 5;
    private static final Duration LONG = Duration.ofMinutes(5);
    private static final Duration PAUSE = Duration.ofSeconds(10);
    private static final Duration CONNECT = Duration.ofSeconds(2L * Integer.getInteger("ppmr.patience", 1));

    private final List<LinkRunner> runners = new ArrayList<>();
    private final CompletableFuture<Void> over = new CompletableFuture<>();
    private PeerListener listener;
    private Cable one;
    private Cable other;
    private Connector.Control control;
    private LinkRunner source;
    private ControlReconnector ways;
    private final RailFigures first = new RailFigures("first");
    private final RailFigures second = new RailFigures("second");
    private final CompletableFuture<LinkRunner> target = new CompletableFuture<>();
    private Duration targetSilence = LONG;

    @BeforeEach
    void listen() throws IOException {
        listener = new PeerListener(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), key(), this::serve);
        one = new Cable(listener.address());
        other = new Cable(listener.address());
    }

    @AfterEach
    void close() throws Exception {
        over.complete(null);
        for (LinkRunner runner : runners) {
            runner.stop();
        }
        one.close();
        other.close();
        listener.close();
    }

    PreSharedKey key() {
        return KEY;
    }

    private void serve(PeerConnection channel, SessionId session, ProtocolVersion version) throws IOException {
        ControlLink link = new ControlLink(channel, version, ATTEMPT, targetSilence.toNanos());
        link.allowResumption(true);
        listener.replaceControl(session, link::offer);
        target.complete(run(link));
        over.join();
    }

    private synchronized LinkRunner run(ControlLink link) {
        LinkRunner runner = new LinkRunner(link);
        runners.add(runner);
        return runner;
    }

    private Connector by(Cable cable) throws IOException {
        return new Connector(cable.address(), key(), CONNECT);
    }

    private void connect(Duration sourceSilence) throws Exception {
        control = by(one).control();
        ControlLink link = new ControlLink(control.channel(), control.version(), ATTEMPT, sourceSilence.toNanos());
        ways = new ControlReconnector(
                link,
                control,
                List.of(
                        new ControlReconnector.ControlRoute(by(one), first),
                        new ControlReconnector.ControlRoute(by(other), second)));
        link.setReconnector(ways);
        source = run(link);
        target.get(60, TimeUnit.SECONDS);
    }

    private static Thread sending(ControlLink link, int from, int to, AtomicReference<Exception> trouble) {
        Thread thread = new Thread(() -> {
            try {
                for (int i = from; i < to; i++) {
                    link.sendValue(FrameType.SYNC, 1, i);
                }
            } catch (IOException e) {
                trouble.set(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static void requireOnce(LinkRunner at, int frames) throws Exception {
        Loopback.until(frames + " frames", () -> at.taken().size() >= frames || at.failure() != null);
        assertNull(at.failure());
        assertEquals(
                LongStream.range(0, frames).boxed().toList(),
                at.taken().stream().map(Taken::value).toList());
    }

    // ---- resumption --------------------------------------------------------------------------------------------

    @Test
    void shouldReceiveEveryFrameOnceWhenConnectionsAreResetAgainAndAgain() throws Exception {
        connect(LONG);
        AtomicReference<Exception> trouble = new AtomicReference<>();
        Random random = new Random(7);
        int rounds = 12;
        int framesEach = 3_000;
        for (int round = 0; round < rounds; round++) {
            int from = round * framesEach;
            sending(source.link(), from, from + framesEach, trouble);
            sending(target.get().link(), from, from + framesEach, trouble);
            LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(random.nextInt(3_000)));
            one.reset();
            other.reset();
            requireOnce(target.get(), from + framesEach);
            requireOnce(source, from + framesEach);
        }
        assertNull(trouble.get());
        int connections = one.connections() + other.connections();
        // A round whose frames were faster than the reset leaves the reset to the next round.
        assertTrue(connections > rounds / 2, connections + " connections");
    }

    @Test
    void shouldResumeOnTheOtherCableWhenOneIsDisconnectedWithoutAReset() throws Exception {
        connect(LONG);
        AtomicReference<Exception> trouble = new AtomicReference<>();
        sending(source.link(), 0, 1_000, trouble).join();
        sending(target.get().link(), 0, 1_000, trouble).join();
        requireOnce(target.get(), 1_000);
        assertEquals(List.of(1L, 0L), List.of(first.controlConnections(), second.controlConnections()));
        assertFalse(first.toString().contains("took"), first.toString());
        one.cut(true);
        long cutNs = System.nanoTime();
        // More than the outbox keeps, so the sender waits for acknowledgements.
        sending(source.link(), 1_000, 50_000, trouble);
        sending(target.get().link(), 1_000, 50_000, trouble);
        requireOnce(target.get(), 50_000);
        requireOnce(source, 50_000);
        long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - cutNs);
        assertTrue(tookMs >= 1_000, "nothing was missed in " + tookMs + " ms");
        // Bytes that the first cable still holds arrive when it is connected again, and are ignored.
        one.cut(false);
        sending(source.link(), 50_000, 51_000, trouble).join();
        requireOnce(target.get(), 51_000);
        assertNull(trouble.get());
        assertEquals(1, other.connections());
        assertEquals(List.of(0L, 1L), List.of(first.controlConnections(), second.controlConnections()));
        assertEquals(List.of(0L, 1L), List.of(first.controlFailovers(), second.controlFailovers()));
        assertTrue(second.toString().contains(", used by the control connection, "), second.toString());
        assertTrue(second.toString().endsWith("1 failovers of the control connection to it"), second.toString());
        source.stop();
        assertEquals(List.of(0L, 0L), List.of(first.controlConnections(), second.controlConnections()));
        Map<String, Long> inUseNs = ways.inUseNs();
        assertEquals(Set.of("first", "second"), inUseNs.keySet());
        assertTrue(inUseNs.values().stream().allMatch(ns -> ns > 0), inUseNs.toString());
        assertEquals(inUseNs, ways.inUseNs(), "it counts on after the end");
    }

    /**
     * Simulates an agent that was not scheduled for seconds: bytes that the peer sent meanwhile are read afterwards.
     */
    @Test
    void shouldKeepItsConnectionAfterAPauseOfItsAgent() throws Exception {
        AtomicLong clockNs = new AtomicLong();
        AtomicInteger begun = new AtomicInteger();
        FrameHandler none = (type, buffer, offset, lengthBytes) -> {};
        try (Loopback pair = Loopback.open();
                Selector comes = Selector.open();
                ControlLink link = new ControlLink(
                        new PeerConnection(pair.far()),
                        ProtocolVersion.NEWEST,
                        ATTEMPT,
                        LONG.toNanos(),
                        clockNs::get)) {
            link.setReconnector(counting(begun));
            link.doWork(none);
            clockNs.addAndGet(PAUSE.toNanos());
            link.doWork(none);
            assertEquals(1, begun.get(), "no resumption when nothing was received");

            pair.far().register(comes, SelectionKey.OP_READ);
            pair.near().write(resume(ATTEMPT, 0, 0).put(5, (byte) FrameType.HEARTBEAT.code()));
            assertEquals(1, comes.select(CONNECT.toMillis()), "the frame has not come");
            clockNs.addAndGet(PAUSE.toNanos());
            link.doWork(none);
            assertEquals(1, begun.get(), "its connection carries, and is given up");

            clockNs.addAndGet(PAUSE.toNanos());
            link.doWork(none);
            assertEquals(2, begun.get(), "it misses nothing after a frame that it has read");
        }
    }

    private static ControlLink.Reconnector counting(AtomicInteger begun) {
        return new ControlLink.Reconnector() {
            @Override
            public void begin() {
                begun.incrementAndGet();
            }

            @Override
            public void resumedOn(SocketAddress to) {
                throw new AssertionError("it is carried to " + to);
            }

            @Override
            public void close() {
                begun.set(Integer.MIN_VALUE);
            }
        };
    }

    // ---- the end of a link ------------------------------------------------------------------------------------

    @Test
    void shouldEndAtBothEndsAfterTheSilenceLimitWhenAllCablesAreDisconnected() throws Exception {
        targetSilence = Duration.ofSeconds(3);
        connect(Duration.ofSeconds(3));
        Loopback.until("the target listens", () -> target.get().failure() == null);
        one.cut(true);
        other.cut(true);
        assertTrue(source.awaitFailure().getMessage().contains("has been silent for 3000 ms"));
        assertTrue(target.get().awaitFailure().getMessage().contains("has been silent for 3000 ms"));
    }

    /** A peer that accepts connections and sends nothing: the silence counts from its last frame. */
    @Test
    void shouldEndAfterTheSilenceLimitHoweverOftenItIsConnected() throws Exception {
        connect(Duration.ofSeconds(4));
        List<PeerConnection> taken = new ArrayList<>();
        listener.replaceControl(control.session(), channel -> {
            synchronized (taken) {
                taken.add(channel);
            }
            try {
                channel.write(resume(ATTEMPT, taken.size(), 0));
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        });
        one.cut(true);
        long startNs = System.nanoTime();
        Exception failure = source.awaitFailure();
        long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
        assertTrue(failure.getMessage().contains("has been silent for 4000 ms"), failure.getMessage());
        assertTrue(tookMs < 60_000 * Integer.getInteger("ppmr.patience", 1), tookMs + " ms");
        synchronized (taken) {
            assertTrue(!taken.isEmpty(), "it was connected");
        }
    }

    @Test
    void shouldEndAtOnceWhenThePeerClosedOrderly() throws Exception {
        connect(LONG);
        target.get().stop();
        assertTrue(source.awaitFailure().getMessage().contains("was closed by the peer"));
    }

    @Test
    void shouldEndSoonWhenTheTargetDoesNotKnowTheSession() throws Exception {
        connect(LONG);
        over.complete(null);
        Loopback.until("the session ended", () -> listener.keys(control.session()) == null);
        if (source.failure() == null) {
            one.reset();
        }
        String reason = source.awaitFailure().getMessage();
        assertTrue(reason.contains("its session ended") || reason.contains("closed by the peer"), reason);
    }

    @Test
    void shouldEndSoonWhenThereIsNoListener() throws Exception {
        connect(LONG);
        listener.close();
        one.close();
        other.close();
        String reason = source.awaitFailure().getMessage();
        assertTrue(reason.contains("cannot be replaced") && reason.contains("cannot be reached"), reason);
    }

    // ---- attacks ----------------------------------------------------------------------------------------------

    private static ByteBuffer resume(int attempt, int generation, long position) {
        UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocate(ValueFrame.LENGTH_BYTES));
        ValueFrame.encode(frame, 0, FrameType.RESUME, attempt, generation, position);
        return frame.byteBuffer();
    }

    private void refused(ByteBuffer word) throws Exception {
        PeerConnection stale = by(other).resumeControl(control.keys());
        stale.write(word);
        stale.channel().socket().setSoTimeout(20_000);
        int read;
        try {
            read = stale.channel().socket().getInputStream().read();
        } catch (java.net.SocketException e) {
            read = -1;
        }
        assertEquals(-1, read, "it is answered");
        stale.close();
    }

    @Test
    void shouldContinueWhenAConnectionIsStaleOrSendsAnInvalidCount() throws Exception {
        connect(LONG);
        AtomicReference<Exception> trouble = new AtomicReference<>();
        sending(source.link(), 0, 100, trouble).join();
        sending(target.get().link(), 0, 100, trouble).join();
        requireOnce(target.get(), 100);
        requireOnce(source, 100);
        one.reset();
        sending(source.link(), 100, 200, trouble).join();
        requireOnce(target.get(), 200);
        int before = other.connections();

        refused(resume(ATTEMPT, 1, 0));
        refused(resume(ATTEMPT, 0, 0));
        refused(resume(ATTEMPT, -1, 0));
        refused(resume(ATTEMPT - 1, 9, 0));
        refused(resume(ATTEMPT, 9, -1));
        refused(resume(ATTEMPT, 9, Long.MAX_VALUE));
        refused(ByteBuffer.wrap("GET / HTTP/1.0\r\n\r\n12345678".getBytes(StandardCharsets.US_ASCII)));
        ByteBuffer heartbeat = resume(ATTEMPT, 9, 0);
        refused(heartbeat.put(5, (byte) FrameType.HEARTBEAT.code()));
        refused(ByteBuffer.allocate(0));

        assertTrue(other.connections() >= before + 9);
        sending(source.link(), 200, 300, trouble).join();
        sending(target.get().link(), 100, 200, trouble).join();
        requireOnce(target.get(), 300);
        requireOnce(source, 200);
        assertNull(trouble.get());
    }

    @Test
    void shouldCloseAConnectionThatArrivesAfterTheLinkEnded() throws Exception {
        connect(LONG);
        ControlLink ended = target.get().link();
        target.get().stop();
        Loopback pair = Loopback.open();
        pair.near().setOption(StandardSocketOptions.SO_LINGER, 0);
        ended.offer(new PeerConnection(pair.far()));
        assertTrue(!pair.far().isOpen(), "it is closed");
        pair.close();
    }
}
