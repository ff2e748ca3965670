package io.ppmr.transport.listen;

import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.transport.auth.ConnectionKind;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.PeerConnection;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.auth.SessionKeys;
import io.ppmr.transport.auth.TargetHandshake;
import io.ppmr.transport.auth.TlsHandshake;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SelectionKey;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Accepts connections of sources. An unauthenticated connection has no thread and only one of a limited number of
 * places. The oldest is closed when a new connection needs a place ({@link AcceptLoop}). After authentication the
 * connection releases that place. A control connection then gets a session and a thread until the session ends. So
 * unauthenticated peers cannot prevent a session.
 */
public final class PeerListener implements AutoCloseable, TargetHandshake.Sessions {
    private static final Logger LOG = LoggerFactory.getLogger(PeerListener.class);
    /** Few enough to leave descriptors for all other uses in a service with a limit of 1024. */
    static final AcceptLoop.ConnectionLimits UNAUTHENTICATED =
            new AcceptLoop.ConnectionLimits(512, 128, Duration.ofSeconds(5));

    static final int MAX_SESSIONS = 128;
    private static final int MAX_WAITING_DATA = 64;
    private static final int BACKLOG = 512;
    /** Interval of the check whether awaited data connections are still needed. */
    private static final long CHECK_NS = TimeUnit.MILLISECONDS.toNanos(100);

    /** Serves an authenticated control connection to its end. */
    @FunctionalInterface
    public interface SessionServer {
        void serve(PeerConnection control, SessionId session, ProtocolVersion version)
                throws IOException, InterruptedException;
    }

    private final ServerSocketChannel server;
    /** A session that is open. */
    private static final class OpenSession {
        private final BlockingQueue<SocketChannel> data = new LinkedBlockingQueue<>(MAX_WAITING_DATA);
        private final SessionKeys keys;
        /** Receives the data connections as they arrive; null while {@link #awaitData} collects them. */
        private volatile Consumer<SocketChannel> receiver;
        /** Receives connections that replace the control connection; null if that is not allowed. */
        private volatile Consumer<PeerConnection> controlReceiver;

        private OpenSession(SessionKeys keys) {
            this.keys = keys;
        }
    }

    private final PeerAuthenticator authenticator;
    private final SessionServer sessions;
    private final Consumer<Runnable> threads;
    private final AcceptLoop.ConnectionLimits unauthenticated;
    private final AcceptLoop loop;
    private final Map<SessionId, OpenSession> open = new ConcurrentHashMap<>();
    /** Listeners at further addresses of this node. */
    private final List<AcceptLoop> furtherLoops = new CopyOnWriteArrayList<>();

    public PeerListener(InetSocketAddress address, PeerAuthenticator authenticator, SessionServer sessions)
            throws IOException {
        this(address, authenticator, sessions, UNAUTHENTICATED, PeerListener::startThread);
    }

    PeerListener(
            InetSocketAddress address,
            PeerAuthenticator authenticator,
            SessionServer sessions,
            AcceptLoop.ConnectionLimits unauthenticated,
            Consumer<Runnable> threads)
            throws IOException {
        this.authenticator = authenticator;
        this.sessions = sessions;
        this.threads = threads;
        this.unauthenticated = unauthenticated;
        TlsHandshake.prepare(authenticator.encryption());
        server = bound(address);
        loop = new AcceptLoop("ppmr-listen", server, unauthenticated, PendingPeer::new);
    }

    private static ServerSocketChannel bound(InetSocketAddress address) throws IOException {
        ServerSocketChannel server = ServerSocketChannel.open();
        try {
            server.setOption(StandardSocketOptions.SO_REUSEADDR, true);
            server.bind(address, BACKLOG);
            return server;
        } catch (IOException e) {
            server.close();
            throw new IOException(
                    "cannot listen on " + address + ": " + e.getMessage()
                            + " (is another ppmr target running, or is it not an address of this node?)",
                    e);
        }
    }

    /**
     * Listens at a further address of this node, too, until it is closed.
     *
     * @return the bound address, or {@code further} itself if the first address includes it
     */
    public InetSocketAddress listenAt(InetSocketAddress further) throws IOException {
        InetSocketAddress first = address();
        boolean isCovered = first.getPort() == further.getPort()
                && (first.getAddress().isAnyLocalAddress() || first.getAddress().equals(further.getAddress()));
        if (isCovered) {
            return further;
        }
        ServerSocketChannel also = bound(further);
        furtherLoops.add(new AcceptLoop("ppmr-listen-rail", also, unauthenticated, PendingPeer::new));
        return (InetSocketAddress) also.socket().getLocalSocketAddress();
    }

    public InetSocketAddress address() {
        return (InetSocketAddress) server.socket().getLocalSocketAddress();
    }

    /** Returns whether it accepts connections. Any thread; blocks for the limit at most. */
    public boolean responds(long limitNs) {
        return loop.responds(limitNs) && furtherLoops.stream().allMatch(further -> further.responds(limitNs));
    }

    /**
     * Passes the data connections of a session to {@code receiver} as they arrive, including those that arrived before,
     * until the session ends.
     *
     * @param receiver called on the listener's threads, which it must not block
     */
    public void forwardData(SessionId session, Consumer<SocketChannel> receiver) {
        OpenSession target = open.get(session);
        if (target != null) {
            target.receiver = receiver;
            forwardData(target);
        }
    }

    private static void forwardData(OpenSession target) {
        Consumer<SocketChannel> receiver = target.receiver;
        if (receiver == null) {
            return;
        }
        for (SocketChannel channel = target.data.poll(); channel != null; channel = target.data.poll()) {
            receiver.accept(channel);
        }
    }

    /**
     * Allows the source of a session to replace its control connection until the session ends.
     *
     * @param receiver called as in {@link #forwardData}, with connections that proved to belong to the session; it
     *     closes those that arrive too late
     */
    public void replaceControl(SessionId session, Consumer<PeerConnection> receiver) {
        OpenSession target = open.get(session);
        if (target != null) {
            target.controlReceiver = receiver;
        }
    }

    /**
     * Waits for the data connections of a session.
     *
     * @param isLost whether the control connection ended, so that no more connections arrive
     */
    public List<SocketChannel> awaitData(SessionId session, int count, Duration atMost, BooleanSupplier isLost)
            throws IOException, InterruptedException {
        BlockingQueue<SocketChannel> arriving = open.get(session).data;
        SocketChannel[] channels = new SocketChannel[count];
        long deadlineNs = System.nanoTime() + atMost.toNanos();
        for (int i = 0; i < count; i++) {
            long remainingNs = deadlineNs - System.nanoTime();
            while (channels[i] == null && remainingNs > 0 && !isLost.getAsBoolean()) {
                channels[i] = arriving.poll(Math.min(remainingNs, CHECK_NS), TimeUnit.NANOSECONDS);
                remainingNs = deadlineNs - System.nanoTime();
            }
            if (channels[i] == null) {
                for (int received = 0; received < i; received++) {
                    closeQuietly(channels[received]);
                }
                throw new IOException("only " + i + " of " + count + " data connections arrived "
                        + (isLost.getAsBoolean() ? "before the control connection ended" : "within " + atMost));
            }
        }
        return List.of(channels);
    }

    /** Accepts no more connections. Existing sessions continue. */
    @Override
    public void close() throws IOException {
        loop.close();
        for (AcceptLoop further : furtherLoops) {
            further.close();
        }
    }

    /** An unauthenticated connection; on the loop's thread. */
    private final class PendingPeer implements AcceptLoop.ConnectionHandler {
        private final TargetHandshake handshake;
        private TargetHandshake.Accepted accepted;

        PendingPeer(SocketChannel channel) throws IOException {
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
            handshake = new TargetHandshake(channel, authenticator, PeerListener.this);
        }

        @Override
        public int proceed() throws IOException {
            Optional<TargetHandshake.Accepted> passed = handshake.proceed();
            if (passed.isEmpty()) {
                return SelectionKey.OP_READ;
            }
            accepted = passed.get();
            return ADMITTED;
        }

        @Override
        public boolean hasShownKey() {
            return handshake.hasShownKey();
        }

        @Override
        public void takeOver(SocketChannel channel) throws IOException {
            SessionId session = accepted.session();
            if (accepted.kind() == ConnectionKind.DATA) {
                channel.configureBlocking(true);
                passData(channel, session);
                return;
            }
            if (accepted.kind() == ConnectionKind.CONTROL_RESUME) {
                replaceConnection(accepted.connection(), session);
                return;
            }
            boolean started = false;
            try {
                channel.configureBlocking(true);
                threads.accept(() -> serveControl(accepted));
                started = true;
            } finally {
                if (!started) {
                    end(session);
                }
            }
        }
    }

    /** Passes a data connection to its session, or closes it if the session ends in the meantime. */
    private void passData(SocketChannel channel, SessionId session) throws IOException {
        OpenSession target = open.get(session);
        if (target == null || !target.data.offer(channel)) {
            throw new IOException("data connection from " + channel.getRemoteAddress() + " for session " + session
                    + ", which " + (target == null ? "ended" : "has the maximum number") + ": refused");
        }
        forwardData(target);
        if (!open.containsKey(session) && target.data.remove(channel)) {
            channel.close();
        }
    }

    private void replaceConnection(PeerConnection connection, SessionId session) throws IOException {
        OpenSession target = open.get(session);
        Consumer<PeerConnection> receiver = target == null ? null : target.controlReceiver;
        if (receiver == null) {
            throw new IOException("control connection from "
                    + connection.channel().getRemoteAddress() + " for session " + session + ", which ended: refused");
        }
        receiver.accept(connection);
    }

    @Override
    public SessionKeys keys(SessionId session) {
        OpenSession target = open.get(session);
        return target == null ? null : target.keys;
    }

    @Override
    public boolean mayResume(SessionId session) {
        OpenSession target = open.get(session);
        return target != null && target.controlReceiver != null;
    }

    @Override
    public boolean hasCapacity() {
        return open.size() < MAX_SESSIONS;
    }

    @Override
    public void open(SessionKeys keys) {
        open.put(keys.session(), new OpenSession(keys));
    }

    private void end(SessionId session) {
        open.remove(session).data.forEach(PeerListener::closeQuietly);
    }

    private void serveControl(TargetHandshake.Accepted accepted) {
        try {
            sessions.serve(accepted.connection(), accepted.session(), accepted.version());
        } catch (IOException e) {
            LOG.warn("a session was ended: {}", e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            end(accepted.session());
            closeQuietly(accepted.connection().channel());
        }
    }

    private static void closeQuietly(SocketChannel channel) {
        try {
            channel.close();
        } catch (IOException e) {
            LOG.debug("closing a connection: {}", e.toString());
        }
    }

    private static void startThread(Runnable task) {
        Thread thread = new Thread(task, "ppmr-peer");
        thread.setDaemon(true);
        thread.start();
    }
}
