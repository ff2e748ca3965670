package io.ppmr.transport.listen;

import io.ppmr.linux.RareLog;
import io.ppmr.transport.DutyCycle;
import io.ppmr.transport.auth.UnusedConnectionException;
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
 * Accepts connections on one daemon thread, which also processes the first bytes of each without blocking. An idle
 * connection costs a descriptor and no thread, and is closed when a new one needs its place.
 *
 * <p>It continues after every failure. When a connection cannot be accepted, because descriptors or memory are
 * exhausted, the oldest unauthenticated connection is closed. The next attempt follows after {@value #BACK_OFF_MS} ms,
 * and new connections wait in the kernel. A watchdog can check whether the thread still runs. Without connections it
 * does not wake. Its owner closes it, which ends all connections that were not admitted.
 */
public final class AcceptLoop implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(AcceptLoop.class);
    private static final long BACK_OFF_MS = 100;
    private static final long BACK_OFF_NS = TimeUnit.MILLISECONDS.toNanos(BACK_OFF_MS);
    private static final long CLOSE_MS = 5000;
    /** Maximum accepts per cycle, so that pending handshakes are served too. */
    private static final int MAX_ACCEPTS_PER_CYCLE = 64;
    /** While handshakes are completed, new connections wait in the kernel's queue for at most this time. */
    private static final long COMPLETING_NS = TimeUnit.MILLISECONDS.toNanos(250);

    private static final long COMPLETING_LOOK_NS = TimeUnit.MILLISECONDS.toNanos(10);

    /**
     * Limits for connections that are not admitted yet.
     *
     * @param all the maximum number
     * @param ofAnAddress the maximum number from one address
     * @param limit the maximum time before a connection is closed
     */
    public record ConnectionLimits(int all, int ofAnAddress, Duration limit) {}

    /** Creates the handler of a new connection, on the loop's thread, which it must not block. */
    @FunctionalInterface
    public interface HandlerFactory {
        /**
         * Returns the handler of a connection. The channel is in non-blocking mode and belongs to the loop until it is
         * admitted.
         */
        ConnectionHandler create(SocketChannel channel) throws IOException;
    }

    /** Handles a new connection until it is admitted, on the loop's thread, which it must not block. */
    public interface ConnectionHandler {
        /** The result of {@link #proceed} when the connection is admitted. */
        int ADMITTED = 0;

        /**
         * Processes received bytes without blocking.
         *
         * @return the operation of {@link SelectionKey} that it waits for, or {@link #ADMITTED}
         * @throws IOException if the connection is refused, or ended: it is closed, and the reason is logged
         */
        int proceed() throws IOException;

        /** Returns true if the peer has shown the key, though the handshake is not complete. */
        default boolean hasShownKey() {
            return false;
        }

        /**
         * Takes over the admitted channel, which is in non-blocking mode and no longer belongs to the loop.
         *
         * @throws IOException if it cannot be served: the loop closes it, and logs the reason
         */
        void takeOver(SocketChannel channel) throws IOException;
    }

    /** The {@code accept} method of the server's channel, which a test may replace. */
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
    private long backOffUntilNs;
    private long failedLines;
    private boolean backingOff;
    private long admittedNs = System.nanoTime() - COMPLETING_NS;
    private volatile boolean closed;

    /**
     * Starts the loop.
     *
     * @param name the listener's name, for log lines and for its thread
     * @param server a bound channel; closed with the loop, and also when this constructor fails
     */
    public AcceptLoop(String name, ServerSocketChannel server, ConnectionLimits limits, HandlerFactory handlers)
            throws IOException {
        this(name, server, server::accept, limits, handlers);
    }

    AcceptLoop(
            String name,
            ServerSocketChannel server,
            Acceptor acceptor,
            ConnectionLimits limits,
            HandlerFactory handlers)
            throws IOException {
        this.name = name;
        this.server = server;
        this.acceptor = acceptor;
        this.handlers = handlers;
        unauthenticated = new UnauthenticatedConnections<>(
                limits.all(), limits.ofAnAddress(), limits.limit().toNanos(), System::nanoTime);
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

    /** Returns true if its thread works. Any thread; blocks until the loop completes a cycle or the limit is over. */
    public boolean responds(long limitNs) {
        return cycle.awaitNextCycle(limitNs, () -> {
            // Inside of the wait, so that the count is read before the thread is woken.
            selector.wakeup();
            return closed;
        });
    }

    /** Stops listening and closes all connections that are not admitted. The address is free when this returns. */
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
                runCycle();
            } catch (IOException | RuntimeException | Error e) {
                // If the thread ended, the service would accept no connections at all, so every failure is retried.
                if (!closed) {
                    backOff(e);
                    // The selector itself may fail without waiting, so the thread pauses here.
                    LockSupport.parkNanos(BACK_OFF_NS);
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

    private void runCycle() throws IOException {
        cycle.increment();
        long waitNs = unauthenticated.untilOverdueNs();
        if (backingOff) {
            long backOffNs = backOffUntilNs - System.nanoTime();
            backingOff = backOffNs > 0;
            waitNs = backingOff ? Math.min(waitNs, backOffNs) : waitNs;
        }
        boolean isCompleting = isCompleting();
        waitNs = isCompleting ? Math.min(waitNs, COMPLETING_LOOK_NS) : waitNs;
        accepting.interestOps(backingOff || isCompleting ? 0 : SelectionKey.OP_ACCEPT);
        // At least 1 ms, because 0 means no time limit.
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
                            + " was closed: it did not authenticate in time");
            close(late.get());
        }
    }

    /**
     * Returns true if many handshakes of peers with the key are being completed. More of them at a time would delay
     * all, until each is closed for another one.
     */
    private boolean isCompleting() {
        return unauthenticated.hasManyProved() && System.nanoTime() - admittedNs < COMPLETING_NS;
    }

    private void acceptAll(List<PendingConnection> admitted) throws IOException {
        for (int i = 0; i < MAX_ACCEPTS_PER_CYCLE && !closed && !isCompleting(); i++) {
            cycle.increment();
            SocketChannel channel;
            try {
                channel = acceptor.accept();
            } catch (IOException | RuntimeException | Error e) {
                if (!closed) {
                    unauthenticated.oldest().ifPresent(this::close);
                    backOff(e);
                }
                return;
            }
            if (channel == null) {
                return;
            }
            register(channel, admitted);
        }
    }

    private void register(SocketChannel channel, List<PendingConnection> admitted) throws IOException {
        SelectionKey key;
        try {
            channel.configureBlocking(false);
            SocketAddress address = channel.getRemoteAddress();
            PendingConnection pending = new PendingConnection(channel, address, handlers.create(channel));
            key = channel.register(selector, 0, pending);
            Optional<SelectionKey> evicted = unauthenticated.add(key, UnauthenticatedConnections.addressOf(address));
            if (evicted.isPresent()) {
                logRarely(
                        "full",
                        name + ": a connection from " + pendingOf(evicted.get()).address()
                                + " was closed: it was not authenticated, and a new connection needed its place");
                close(evicted.get());
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
            int operation = pending.handler().proceed();
            if (operation == ConnectionHandler.ADMITTED) {
                unauthenticated.remove(key);
                admittedNs = System.nanoTime();
                key.cancel();
                admitted.add(pending);
            } else {
                if (pending.handler().hasShownKey()) {
                    unauthenticated.prove(key);
                }
                key.interestOps(operation);
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
        // Removes the cancelled keys from the selector. Another thread may close the descriptor, and the kernel may
        // assign its number to the next connection, before the selector removes the key.
        selector.selectNow();
        selector.selectedKeys().clear();
        for (PendingConnection pending : admitted) {
            cycle.increment();
            try {
                pending.handler().takeOver(pending.channel());
            } catch (IOException | RuntimeException | Error e) {
                refuse(String.valueOf(pending.address()), e);
                pending.channel().close();
            }
        }
    }

    private void refuse(String address, Throwable reason) {
        if (reason instanceof UnusedConnectionException) {
            LOG.debug("{}: {}", name, reason.getMessage());
            return;
        }
        logRarely(
                "refused " + reason.getClass().getName(),
                name + ": a connection from " + address + " was refused: " + textOf(reason));
    }

    private void backOff(Throwable reason) {
        backingOff = true;
        backOffUntilNs = System.nanoTime() + BACK_OFF_NS;
        logRarely(
                "accept " + reason.getClass().getName(),
                name + ": connections cannot be accepted: " + textOf(reason) + "; retrying every "
                        + BACK_OFF_MS
                        + " ms (if files or threads are exhausted: raise LimitNOFILE= and TasksMax= of the"
                        + " unit, or ulimit -n and -u)");
    }

    private void logRarely(String kind, String line) {
        try {
            log.write(kind, failedLines == 0 ? line : line + " (" + failedLines + " lines before this one failed)");
            failedLines = 0;
        } catch (RuntimeException | Error e) {
            // Without memory or descriptors logging may fail, too, and the thread must survive that. RareLog counts
            // only written lines, so the next attempt logs again.
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
        unauthenticated.remove(key);
        try {
            key.channel().close();
        } catch (IOException e) {
            LOG.debug("closing a connection: {}", e.toString());
        }
    }
}
