package io.ppmr.transport.listen;

import io.ppmr.transport.auth.ConnectionKind;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.auth.TargetHandshake;
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
 * Takes connections of sources. Until a connection has proved that it holds the key it has no thread, and one of a
 * limited number of places: the oldest is closed when a new connection needs a place ({@link AcceptLoop}). With the
 * proof it leaves that place. A control connection then has one of the sessions' places and a thread of its own, to the
 * end of its session; so unauthenticated peers never keep a session from its place.
 */
public final class PeerListener implements AutoCloseable, TargetHandshake.Sessions {
    private static final Logger LOG = LoggerFactory.getLogger(PeerListener.class);
    /** Few enough to leave room for everything else where a service that was started by hand has 1024 descriptors. */
    static final AcceptLoop.ConnectionLimits UNAUTHENTICATED =
            new AcceptLoop.ConnectionLimits(512, 128, Duration.ofSeconds(5));

    static final int MAX_SESSIONS = 128;
    private static final int MAX_WAITING_DATA = 64;
    private static final int BACKLOG = 512;
    /** While data connections are awaited it is looked so often whether they are still wanted. */
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(100);

    /** Serves an authenticated control connection to its end. */
    @FunctionalInterface
    public interface SessionServer {
        void serve(SocketChannel control, SessionId session) throws IOException, InterruptedException;
    }

    private final ServerSocketChannel server;
    /** A session. */
    private static final class Open {
        private final BlockingQueue<SocketChannel> data = new LinkedBlockingQueue<>(MAX_WAITING_DATA);
        private final byte[] secret;
        /** Takes the data connections as they come; null where they are waited for. */
        private volatile Consumer<SocketChannel> taker;
        /** Accepts connections that replace its control connection; null if that is not allowed. */
        private volatile Consumer<SocketChannel> successor;

        private Open(byte[] secret) {
            this.secret = secret;
        }
    }

    private final PeerAuthenticator authenticator;
    private final SessionServer sessions;
    private final Consumer<Runnable> threads;
    private final AcceptLoop.ConnectionLimits unauthenticated;
    private final AcceptLoop loop;
    private final Map<SessionId, Open> open = new ConcurrentHashMap<>();
    /** At further addresses of this node. */
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
                            + " (is another ppmr target running, or the address not this node's?)",
                    e);
        }
    }

    /**
     * Takes connections at a further address of this node, too, until it is closed.
     *
     * @return where exactly; the address itself where connections to it come already
     */
    public InetSocketAddress alsoAt(InetSocketAddress further) throws IOException {
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

    /** Asks whether it takes connections. Any thread; blocks it, for the limit at most. */
    public boolean responds(long limitNs) {
        return loop.responds(limitNs) && furtherLoops.stream().allMatch(further -> further.responds(limitNs));
    }

    /**
     * Has the data connections of a session taken as they come, for as long as it lasts, those that have come already
     * too.
     *
     * @param taker called on the listener's threads, which it must not hold up
     */
    public void handOver(SessionId session, Consumer<SocketChannel> taker) {
        Open of = open.get(session);
        if (of != null) {
            of.taker = taker;
            handOver(of);
        }
    }

    private static void handOver(Open of) {
        Consumer<SocketChannel> taker = of.taker;
        if (taker == null) {
            return;
        }
        for (SocketChannel channel = of.data.poll(); channel != null; channel = of.data.poll()) {
            taker.accept(channel);
        }
    }

    /**
     * Lets the source of a session replace its control connection, for as long as the session lasts.
     *
     * @param taker as in {@link #handOver}: takes what has proved that it is the session's, and closes what it is
     *     handed too late
     */
    public void replaceControl(SessionId session, Consumer<SocketChannel> taker) {
        Open of = open.get(session);
        if (of != null) {
            of.successor = taker;
        }
    }

    /**
     * Waits for the data connections of a session.
     *
     * @param isLost says that the control connection has ended: what is awaited comes no more
     */
    public List<SocketChannel> awaitData(SessionId session, int count, Duration atMost, BooleanSupplier isLost)
            throws IOException, InterruptedException {
        BlockingQueue<SocketChannel> arriving = open.get(session).data;
        SocketChannel[] channels = new SocketChannel[count];
        long deadlineNs = System.nanoTime() + atMost.toNanos();
        for (int i = 0; i < count; i++) {
            long leftNs = deadlineNs - System.nanoTime();
            while (channels[i] == null && leftNs > 0 && !isLost.getAsBoolean()) {
                channels[i] = arriving.poll(Math.min(leftNs, LOOK_NS), TimeUnit.NANOSECONDS);
                leftNs = deadlineNs - System.nanoTime();
            }
            if (channels[i] == null) {
                for (int got = 0; got < i; got++) {
                    closeQuietly(channels[got]);
                }
                throw new IOException("only " + i + " of " + count + " data connections came "
                        + (isLost.getAsBoolean() ? "before the control connection ended" : "within " + atMost));
            }
        }
        return List.of(channels);
    }

    /** Takes no more connections; those of sessions continue. */
    @Override
    public void close() throws IOException {
        loop.close();
        for (AcceptLoop further : furtherLoops) {
            further.close();
        }
    }

    /** A connection that has proved nothing yet; on the loop's thread. */
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
        public void admitted(SocketChannel channel) throws IOException {
            SessionId session = accepted.session();
            if (accepted.kind() == ConnectionKind.DATA) {
                channel.configureBlocking(true);
                give(channel, session);
                return;
            }
            if (accepted.kind() == ConnectionKind.CONTROL_RESUME) {
                replace(channel, session);
                return;
            }
            boolean started = false;
            try {
                channel.configureBlocking(true);
                threads.accept(() -> serveControl(channel, session));
                started = true;
            } finally {
                if (!started) {
                    end(session);
                }
            }
        }
    }

    /** Gives a data connection to its session; closes it if the session ends at this moment. */
    private void give(SocketChannel channel, SessionId session) throws IOException {
        Open to = open.get(session);
        if (to == null || !to.data.offer(channel)) {
            throw new IOException("data connection from " + channel.getRemoteAddress() + " for session " + session
                    + ", which " + (to == null ? "has ended" : "takes no more of them") + ": refused");
        }
        handOver(to);
        if (!open.containsKey(session) && to.data.remove(channel)) {
            channel.close();
        }
    }

    private void replace(SocketChannel channel, SessionId session) throws IOException {
        Open of = open.get(session);
        Consumer<SocketChannel> taker = of == null ? null : of.successor;
        if (taker == null) {
            throw new IOException("control connection from " + channel.getRemoteAddress() + " for session " + session
                    + ", which has ended: refused");
        }
        taker.accept(channel);
    }

    @Override
    public boolean exists(SessionId session) {
        return open.containsKey(session);
    }

    @Override
    public byte[] secret(SessionId session) {
        Open of = open.get(session);
        return of == null || of.successor == null ? null : of.secret;
    }

    @Override
    public boolean hasPlace() {
        return open.size() < MAX_SESSIONS;
    }

    @Override
    public void open(SessionId session, byte[] secret) {
        open.put(session, new Open(secret));
    }

    private void end(SessionId session) {
        open.remove(session).data.forEach(PeerListener::closeQuietly);
    }

    private void serveControl(SocketChannel channel, SessionId session) {
        try {
            sessions.serve(channel, session);
        } catch (IOException e) {
            LOG.warn("a session was ended: {}", e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            end(session);
            closeQuietly(channel);
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
