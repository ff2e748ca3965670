package io.ppmr.transport.listen;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.transport.auth.ConnectionProof;
import io.ppmr.transport.auth.PeerConnection;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Attacks the target's port with real connections. */
class PeerListenerTest {
    private static final PreSharedKey KEY =
            new PreSharedKey("0123456789abcdef0123456789abcdef".getBytes(StandardCharsets.US_ASCII));
    private static final int PATIENCE = Integer.getInteger("ppmr.patience", 1);
    private static final Duration LONG = Duration.ofMinutes(5);
    private static final Duration DEADLINE = Duration.ofSeconds(30L * PATIENCE);
    private static final Duration LIMIT = Duration.ofSeconds(30L * PATIENCE);

    private final Set<SessionId> served = ConcurrentHashMap.newKeySet();
    private final List<SocketChannel> open = new ArrayList<>();
    private PeerListener listener;

    @AfterEach
    void close() throws IOException {
        for (SocketChannel channel : open) {
            channel.close();
        }
        listener.close();
    }

    private void listen(AcceptLoop.ConnectionLimits limits) throws IOException {
        listen(limits, task -> {
            Thread thread = new Thread(task, "session");
            thread.setDaemon(true);
            thread.start();
        });
    }

    private void listen(AcceptLoop.ConnectionLimits limits, Consumer<Runnable> threads) throws IOException {
        listener = new PeerListener(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), KEY, this::serve, limits, threads);
    }

    /** A session that lasts until its source disconnects. */
    private void serve(PeerConnection control, SessionId session, ProtocolVersion version) throws IOException {
        served.add(session);
        try {
            control.write(ByteBuffer.wrap(new byte[] {'s'}));
            while (control.read(ByteBuffer.allocate(64)) >= 0) {
                assertTrue(control.channel().isBlocking());
            }
        } finally {
            served.remove(session);
        }
    }

    private SocketChannel idleConnection() throws IOException {
        SocketChannel channel = SocketChannel.open(listener.address());
        open.add(channel);
        return channel;
    }

    private Connector.Control source() throws IOException {
        Connector.Control control = new Connector(listener.address(), KEY, DEADLINE).control();
        open.add(control.channel().channel());
        ByteBuffer first = ByteBuffer.allocate(1);
        assertEquals(1, control.channel().read(first));
        assertEquals('s', first.get(0));
        return control;
    }

    private static void await(String what, BooleanSupplier condition) {
        long deadlineNs = System.nanoTime() + LIMIT.toNanos();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - deadlineNs < 0, what);
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
    }

    private static boolean hasEnded(SocketChannel channel, int limitMs) throws IOException {
        channel.socket().setSoTimeout(limitMs);
        try {
            return channel.socket().getInputStream().read() < 0;
        } catch (SocketTimeoutException e) {
            return false;
        }
    }

    @Test
    void shouldForwardDataConnectionsOfEveryAddressAsTheyArrive() throws Exception {
        listen(new AcceptLoop.ConnectionLimits(16, 8, LONG));
        InetSocketAddress further = listener.listenAt(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        Connector.Control control = source();
        open.addAll(new Connector(further, KEY, DEADLINE).data(control.keys(), 2));
        List<SocketChannel> taken = new CopyOnWriteArrayList<>();
        listener.forwardData(control.session(), taken::add);
        await("those that were there are handed over", () -> taken.size() == 2);
        open.addAll(new Connector(listener.address(), KEY, DEADLINE).data(control.keys(), 1));
        await("those that come later are, too", () -> taken.size() == 3);
        open.addAll(taken);
        assertEquals(listener.address(), listener.listenAt(listener.address()), "it listens there already");
        assertTrue(listener.responds(LIMIT.toNanos()));
    }

    @Test
    void shouldForwardNothingWhenThePeerOfAFurtherAddressHasNoKeyOrNoSession() throws Exception {
        listen(new AcceptLoop.ConnectionLimits(16, 8, LONG));
        InetSocketAddress further = listener.listenAt(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        Connector.Control control = source();
        List<SocketChannel> taken = new CopyOnWriteArrayList<>();
        listener.forwardData(control.session(), taken::add);
        PreSharedKey other = new PreSharedKey(new byte[64]);
        assertThrows(IOException.class, () -> new Connector(further, other, DEADLINE).control());
        Connector.Control ended = source();
        ended.channel().close();
        await("the other session ended", () -> listener.keys(ended.session()) == null);
        assertThrows(IOException.class, () -> new Connector(further, KEY, DEADLINE).data(ended.keys(), 1));
        SocketChannel silent = SocketChannel.open(further);
        open.add(silent);
        silent.write(ByteBuffer.wrap(new byte[100]));
        await("a peer that is not ppmr is closed", () -> {
            try {
                return hasEnded(silent, 10);
            } catch (IOException e) {
                return true;
            }
        });
        assertEquals(List.of(), taken);
        open.addAll(new Connector(further, KEY, DEADLINE).data(control.keys(), 1));
        await("the session's own is handed over", () -> taken.size() == 1);
        open.addAll(taken);
    }

    @Test
    void shouldOpenSessionsWhileIdleConnectionsOfTheSameAddressHaveEveryPlace() throws Exception {
        listen(new AcceptLoop.ConnectionLimits(16, 8, LONG));
        for (int i = 0; i < 100; i++) {
            idleConnection();
        }
        Connector.Control control = source();
        for (int i = 0; i < 100; i++) {
            idleConnection();
        }
        List<SocketChannel> data = new Connector(listener.address(), KEY, DEADLINE).data(control.keys(), 3);
        open.addAll(data);
        assertEquals(
                3, listener.awaitData(control.session(), 3, LIMIT, () -> false).size());
        for (int i = 0; i < 300; i++) {
            idleConnection();
        }
        source();
        assertEquals(2, served.size(), "no session was dropped for an unauthenticated connection");
        assertFalse(hasEnded(control.channel().channel(), 50));
        assertFalse(hasEnded(data.get(0), 50));
    }

    @Test
    void shouldNotCountSessionsAsUnauthenticatedConnectionsOfAnAddress() throws Exception {
        listen(new AcceptLoop.ConnectionLimits(4, 2, LONG));
        for (int i = 0; i < PeerListener.MAX_SESSIONS; i++) {
            source();
        }
        SocketChannel first = idleConnection();
        SocketChannel second = idleConnection();
        assertFalse(
                hasEnded(first, 50), "its address has 128 sessions, and two places for unauthenticated connections");
        SocketChannel third = idleConnection();
        assertTrue(hasEnded(first, 30_000));
        assertFalse(hasEnded(second, 50));
        assertFalse(hasEnded(third, 50));
        assertEquals(PeerListener.MAX_SESSIONS, served.size());
        IOException full = assertThrows(IOException.class, this::source);
        assertTrue(full.getMessage().contains("it has the maximum number of sessions"), full.getMessage());
        open.get(0).close();
        await("a place is free again", () -> served.size() < PeerListener.MAX_SESSIONS);
        await("another session", () -> {
            try {
                source();
                return true;
            } catch (IOException e) {
                return false;
            }
        });
    }

    @Test
    void shouldCloseSilentAndSlowConnectionsAndKeepTheSession() throws Exception {
        // Loads the classes of the first proof, so that the limit does not include their loading.
        KEY.prove(ConnectionProof.Role.SOURCE, new byte[1]);
        listen(new AcceptLoop.ConnectionLimits(16, 16, Duration.ofSeconds(2L * PATIENCE)));
        Connector.Control control = source();
        SocketChannel silent = idleConnection();
        SocketChannel slow = idleConnection();
        long startNs = System.nanoTime();
        boolean ended = false;
        while (!ended) {
            assertTrue(System.nanoTime() - startNs < LIMIT.toNanos(), "one byte after the other, and never ended");
            try {
                slow.write(ByteBuffer.wrap(new byte[] {'P'}, 0, 1));
                ended = hasEnded(slow, 100);
            } catch (IOException e) {
                ended = true; // reset
            }
        }
        assertTrue(hasEnded(silent, 30_000));
        assertFalse(hasEnded(control.channel().channel(), 1500), "who is known has all the time");
        assertEquals(1, served.size());
    }

    @Test
    void shouldRefuseOneSessionAndServeTheNextWhenThreadsHaveRunOut() throws Exception {
        AtomicInteger count = new AtomicInteger();
        listen(new AcceptLoop.ConnectionLimits(16, 16, LONG), task -> {
            if (count.getAndIncrement() < PeerListener.MAX_SESSIONS + 1) {
                throw new OutOfMemoryError("unable to create native thread");
            }
            new Thread(task, "session").start();
        });
        // More often than there are places, so that a leak of places would show.
        for (int i = 0; i < PeerListener.MAX_SESSIONS + 1; i++) {
            Connector.Control control = new Connector(listener.address(), KEY, DEADLINE).control();
            assertTrue(hasEnded(control.channel().channel(), 30_000));
            control.channel().close();
        }
        source();
        assertTrue(listener.responds(LIMIT.toNanos()));
        assertEquals(1, served.size());
    }

    @Test
    void shouldCloseUnusedDataConnectionsWithTheirSession() throws Exception {
        listen(PeerListener.UNAUTHENTICATED);
        Connector.Control control = source();
        List<SocketChannel> data = new Connector(listener.address(), KEY, DEADLINE).data(control.keys(), 64);
        open.addAll(data);
        SocketChannel tooMany = new Connector(listener.address(), KEY, DEADLINE)
                .data(control.keys(), 1)
                .get(0);
        open.add(tooMany);
        assertTrue(hasEnded(tooMany, 30_000), "64 wait already");
        control.channel().close();
        for (SocketChannel one : data) {
            assertTrue(hasEnded(one, 30_000));
        }
    }
}
