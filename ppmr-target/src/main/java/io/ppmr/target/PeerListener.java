package io.ppmr.target;

import io.ppmr.transport.auth.ConnectionKind;
import io.ppmr.transport.auth.Handshake;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.SessionId;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes connections of sources: each is authenticated on a thread of its own, to a deadline, before anything else is
 * done for it; few at once, so that a stranger cannot fill the node with threads.
 */
final class PeerListener implements AutoCloseable, Handshake.Sessions {
    private static final Logger LOG = LoggerFactory.getLogger(PeerListener.class);
    private static final long HANDSHAKE_NS = TimeUnit.SECONDS.toNanos(5);
    private static final int MAX_CONNECTIONS = 128;

    /** Serves an authenticated control connection to its end. */
    @FunctionalInterface
    interface SessionServer {
        void serve(SocketChannel control, SessionId session) throws IOException, InterruptedException;
    }

    private final ServerSocketChannel server;
    private final PeerAuthenticator authenticator;
    private final SessionServer sessions;
    private final Map<SessionId, BlockingQueue<SocketChannel>> dataConnections = new ConcurrentHashMap<>();
    private final Semaphore places = new Semaphore(MAX_CONNECTIONS);
    private volatile boolean closed;

    PeerListener(InetSocketAddress address, PeerAuthenticator authenticator, SessionServer sessions)
            throws IOException {
        this.authenticator = authenticator;
        this.sessions = sessions;
        server = ServerSocketChannel.open();
        try {
            server.setOption(StandardSocketOptions.SO_REUSEADDR, true);
            server.bind(address);
        } catch (IOException e) {
            server.close();
            throw new IOException(
                    "cannot listen on " + address + ": " + e.getMessage()
                            + " (is another ppmr target running, or the address not this node's?)",
                    e);
        }
        daemon(this::acceptAll, "ppmr-listen");
    }

    InetSocketAddress address() {
        return (InetSocketAddress) server.socket().getLocalSocketAddress();
    }

    /** Waits for the data connections of a session. */
    List<SocketChannel> awaitData(SessionId session, int count, Duration atMost)
            throws IOException, InterruptedException {
        BlockingQueue<SocketChannel> arriving = dataConnections.get(session);
        SocketChannel[] channels = new SocketChannel[count];
        long deadlineNs = System.nanoTime() + atMost.toNanos();
        for (int i = 0; i < count; i++) {
            channels[i] = arriving.poll(deadlineNs - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (channels[i] == null) {
                for (int got = 0; got < i; got++) {
                    closeQuietly(channels[got]);
                }
                throw new IOException("only " + i + " of " + count + " data connections came within " + atMost);
            }
        }
        return List.of(channels);
    }

    @Override
    public void close() throws IOException {
        closed = true;
        server.close();
    }

    private void acceptAll() {
        while (!closed) {
            try {
                SocketChannel channel = server.accept();
                if (places.tryAcquire()) {
                    daemon(() -> receive(channel), "ppmr-peer");
                } else {
                    LOG.warn("connection from {} refused: {} are open", channel.getRemoteAddress(), MAX_CONNECTIONS);
                    channel.close();
                }
            } catch (AsynchronousCloseException e) {
                LOG.debug("listening ends: {}", e.toString());
            } catch (IOException e) {
                LOG.error("a connection could not be accepted: {}", e.toString());
            }
        }
    }

    private void receive(SocketChannel channel) {
        boolean handedOver = false;
        try {
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
            Handshake.Accepted accepted =
                    new Handshake(channel, authenticator, System.nanoTime() + HANDSHAKE_NS).asTarget(this);
            if (accepted.kind() == ConnectionKind.DATA) {
                BlockingQueue<SocketChannel> arriving = dataConnections.get(accepted.session());
                handedOver = arriving != null
                        && arriving.add(channel)
                        && (dataConnections.containsKey(accepted.session()) || !arriving.remove(channel));
            } else {
                handedOver = true;
                serveControl(channel, accepted.session());
            }
        } catch (IOException e) {
            LOG.warn("a connection was refused: {}", e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            places.release();
            if (!handedOver) {
                closeQuietly(channel);
            }
        }
    }

    @Override
    public boolean exists(SessionId session) {
        return dataConnections.containsKey(session);
    }

    @Override
    public void open(SessionId session) {
        dataConnections.put(session, new LinkedBlockingQueue<>());
    }

    private void serveControl(SocketChannel channel, SessionId session) throws IOException, InterruptedException {
        try {
            sessions.serve(channel, session);
        } finally {
            dataConnections.remove(session).forEach(PeerListener::closeQuietly);
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

    private static void daemon(Runnable task, String name) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
    }
}
