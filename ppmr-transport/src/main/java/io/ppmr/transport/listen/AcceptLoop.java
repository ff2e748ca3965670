package io.ppmr.transport.listen;

import io.ppmr.os.RareLog;
import io.ppmr.transport.DutyCycle;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Accepts connections on one daemon thread, and on the same thread reads what each says first, without waiting for any:
 * a connection that says nothing costs a descriptor and no thread, and keeps its place only while no other process
 * wants it.
 *
 * <p>It continues whatever happens. When a connection cannot be accepted, because descriptors or memory have run out,
 * the oldest unauthenticated connection is closed, the next attempt is made after {@value #REST_MS} ms, and new
 * connections wait in the kernel. A watchdog can check whether the thread still runs. Without connections it does not
 * wake. Closed by its owner, which ends all connections that have not been admitted.
 */
public final class AcceptLoop implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(AcceptLoop.class);
    private static final long REST_MS = 100;
    private static final long REST_NS = TimeUnit.MILLISECONDS.toNanos(REST_MS);
    private static final long CLOSE_MS = 5000;
    /** Maximum accepts per cycle, so that pending handshakes are served too. */
    private static final int MAX_ACCEPTS_PER_CYCLE = 64;

    /**
     * The places of connections that are not admitted yet.
     *
     * @param all how many there are
     * @param ofAnAddress how many of them one address may have
     * @param limit how long one may be held
     */
    public record ConnectionLimits(int all, int ofAnAddress, Duration limit) {}

    /** The service's part: it handles a new connection on the loop's thread, which it must not block. */
    @FunctionalInterface
    public interface HandlerFactory {
        /** Gives who speaks with it; the channel is in non-blocking mode, and the loop's until it is admitted. */
        ConnectionHandler receive(SocketChannel channel) throws IOException;
    }

    /** A new connection's conversation, on the loop's thread, which it must not block. */
    public interface ConnectionHandler {
        /** The result of {@link #proceed} when the connection is admitted. */
        int ADMITTED = 0;

        /**
         * Goes on as far as it can without waiting.
         *
         * @return the operation of {@link SelectionKey} that it waits for, or {@link #ADMITTED}
         * @throws IOException if the connection is refused, or is over: it is closed, and the reason goes to the log
         */
        int proceed() throws IOException;

        /**
         * Takes the channel, which is in non-blocking mode and no more the loop's.
         *
         * @throws IOException if it cannot be served: the loop closes it, and the reason goes to the log
         */
        void admitted(SocketChannel channel) throws IOException;
    }

    /** {@code accept} of the server's channel; a test's may fail. */
    @FunctionalInterface
    interface Acceptor {
        SocketChannel accept() throws IOException;
    }

    private record PendingConnection(SocketChannel channel, SocketAddress address, ConnectionHandler handler) {}

    private final String name;
    private final ServerSocketChannel server;
    private final Acceptor acceptor;
    private final HandlerFactory handlers;
    private final UnauthenticatedConnections<SelectionKey> unauthenticated;
    private final RareLog log = new RareLog(LOG::warn);
    private final DutyCycle cycle = new DutyCycle();
    private final Selector selector;
    private final SelectionKey accepting;
    private final Thread thread;
    private long restUntilNs;
    private long failedLines;
    private boolean backingOff;
    private volatile boolean closed;

    /**
     * Begins to accept.
     *
     * @param name of the listener, for people and for its thread
     * @param server bound already; closed with the loop, and also when this fails
     */
    public AcceptLoop(String name, ServerSocketChannel server, ConnectionLimits places, HandlerFactory host)
            throws IOException {
        this(name, server, server::accept, places, host);
    }

    AcceptLoop(String name, ServerSocketChannel server, Acceptor door, ConnectionLimits places, HandlerFactory host)
            throws IOException {
        this.name = name;
        this.server = server;
        this.acceptor = door;
        this.handlers = host;
        unauthenticated = new UnauthenticatedConnections<>(
                places.all(), places.ofAnAddress(), places.limit().toNanos(), System::nanoTime);
        try {
            selector = Selector.open();
        } catch (IOException e) {
            server.close();
            throw e;
        }
        try {
            server.configureBlocking(false);
            accepting = server.register(selector, SelectionKey.OP_ACCEPT);
        } catch (IOException e) {
            selector.close();
            server.close();
            throw e;
        }
        thread = new Thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Returns true if its thread works. Any thread; blocks it until the loop goes round or the limit is over. */
    public boolean responds(long limitNs) {
        return cycle.awaitNextCycle(limitNs, () -> {
            // Inside, so that no round is woken before it is counted from where.
            selector.wakeup();
            return closed;
        });
    }

    /** Ends the listening and all connections that are not admitted; the address is free when this returns. */
    @Override
    public void close() throws IOException {
        closed = true;
        server.close();
        selector.wakeup();
        try {
            thread.join(CLOSE_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() {
        while (!closed) {
            try {
                round();
            } catch (IOException | RuntimeException | Error e) {
                // A listener that ends would make the service deaf for good, so any failure is worth another attempt.
                if (!closed) {
                    restAfter(e);
                    // What failed may be the waiting itself.
                    LockSupport.parkNanos(REST_NS);
                }
            }
        }
        for (SelectionKey key : List.copyOf(selector.keys())) {
            close(key);
        }
        try {
            selector.close();
        } catch (IOException e) {
            LOG.warn("{}: its selector cannot be closed: {}", name, e.getMessage());
        }
    }

    private void round() throws IOException {
        cycle.increment();
        long waitNs = unauthenticated.untilOverdueNs();
        if (backingOff) {
            long restNs = restUntilNs - System.nanoTime();
            backingOff = restNs > 0;
            waitNs = backingOff ? Math.min(waitNs, restNs) : waitNs;
        }
        accepting.interestOps(backingOff ? 0 : SelectionKey.OP_ACCEPT);
        // At least 1 ms: 0 would wait for ever.
        selector.select(waitNs == Long.MAX_VALUE ? 0 : Math.max(1, TimeUnit.NANOSECONDS.toMillis(waitNs) + 1));
        List<SelectionKey> ready = List.copyOf(selector.selectedKeys());
        selector.selectedKeys().clear();
        List<PendingConnection> admitted = new ArrayList<>();
        boolean hasPending = false;
        for (SelectionKey key : ready) {
            if (key == accepting) {
                hasPending = !backingOff;
            } else if (key.isValid()) {
                proceed(key, admitted);
            }
        }
        // Older connections are served before a new one can replace them.
        if (hasPending) {
            acceptAll(admitted);
        }
        admit(admitted);
        for (Optional<SelectionKey> late = unauthenticated.overdue();
                late.isPresent();
                late = unauthenticated.overdue()) {
            logRarely(
                    "late",
                    name + ": a connection from " + pendingOf(late.get()).address()
                            + " was closed: it has not shown in time who it is");
            close(late.get());
        }
    }

    private void acceptAll(List<PendingConnection> admitted) throws IOException {
        for (int i = 0; i < MAX_ACCEPTS_PER_CYCLE && !closed; i++) {
            cycle.increment();
            SocketChannel channel;
            try {
                channel = acceptor.accept();
            } catch (IOException | RuntimeException | Error e) {
                if (!closed) {
                    unauthenticated.oldest().ifPresent(this::close);
                    restAfter(e);
                }
                return;
            }
            if (channel == null) {
                return;
            }
            receive(channel, admitted);
        }
    }

    private void receive(SocketChannel channel, List<PendingConnection> admitted) throws IOException {
        SelectionKey key;
        try {
            channel.configureBlocking(false);
            SocketAddress address = channel.getRemoteAddress();
            PendingConnection pending = new PendingConnection(channel, address, handlers.receive(channel));
            key = channel.register(selector, 0, pending);
            Optional<SelectionKey> goes = unauthenticated.enter(key, UnauthenticatedConnections.addressOf(address));
            if (goes.isPresent()) {
                logRarely(
                        "full",
                        name + ": a connection from " + pendingOf(goes.get()).address()
                                + " was closed: it has not shown who it is, and its place was needed");
                close(goes.get());
            }
        } catch (IOException | RuntimeException | Error e) {
            refuse("unknown", e);
            channel.close();
            return;
        }
        proceed(key, admitted);
    }

    private void proceed(SelectionKey key, List<PendingConnection> admitted) {
        PendingConnection pending = pendingOf(key);
        try {
            int waitsFor = pending.handler().proceed();
            if (waitsFor == ConnectionHandler.ADMITTED) {
                unauthenticated.leave(key);
                key.cancel();
                admitted.add(pending);
            } else {
                key.interestOps(waitsFor);
            }
        } catch (IOException | RuntimeException | Error e) {
            refuse(String.valueOf(pending.address()), e);
            close(key);
        }
    }

    private void admit(List<PendingConnection> admitted) throws IOException {
        if (admitted.isEmpty()) {
            return;
        }
        // Takes the cancelled keys out of the selector: another thread may close the descriptor, and the kernel give
        // it to the next connection, before the selector forgets it.
        selector.selectNow();
        selector.selectedKeys().clear();
        for (PendingConnection pending : admitted) {
            cycle.increment();
            try {
                pending.handler().admitted(pending.channel());
            } catch (IOException | RuntimeException | Error e) {
                refuse(String.valueOf(pending.address()), e);
                pending.channel().close();
            }
        }
    }

    private void refuse(String address, Throwable reason) {
        logRarely(
                "refused " + reason.getClass().getName(),
                name + ": a connection from " + address + " was refused: " + textOf(reason));
    }

    private void restAfter(Throwable reason) {
        backingOff = true;
        restUntilNs = System.nanoTime() + REST_NS;
        logRarely(
                "accept " + reason.getClass().getName(),
                name + ": connections cannot be accepted now, and wait: " + textOf(reason) + "; it is tried again each "
                        + REST_MS + " ms (where files or threads have run out: raise LimitNOFILE= and TasksMax= of the"
                        + " unit, or ulimit -n and -u)");
    }

    private void logRarely(String kind, String line) {
        try {
            log.say(kind, failedLines == 0 ? line : line + " (" + failedLines + " lines before this one failed)");
            failedLines = 0;
        } catch (RuntimeException | Error e) {
            // Without memory or descriptors a line may be impossible, too, and the thread must outlive that. RareLog
            // counts only what was written: while the trouble lasts the next attempt says it.
            failedLines++;
        }
    }

    private static String textOf(Throwable reason) {
        return reason instanceof IOException && reason.getMessage() != null ? reason.getMessage() : reason.toString();
    }

    private static PendingConnection pendingOf(SelectionKey key) {
        return (PendingConnection) key.attachment();
    }

    private void close(SelectionKey key) {
        unauthenticated.leave(key);
        try {
            key.channel().close();
        } catch (IOException e) {
            LOG.debug("closing a connection: {}", e.toString());
        }
    }
}
