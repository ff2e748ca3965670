package io.ppmr.transport.tcp;

import io.ppmr.linux.LogContext;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One data connection and its thread, at either end. The thread waits in the kernel for received bytes, for space in
 * the send buffer if {@link #watch} requested that, or for {@link #wake}. Nothing spins.
 */
abstract class DataConnection {
    private static final Logger LOG = LoggerFactory.getLogger(DataConnection.class);
    private static final long JOIN_MS = 2_000;

    final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private final Thread thread;
    private volatile boolean closing;

    /** Takes over a connected and authenticated channel. */
    DataConnection(SocketChannel channel, String name) {
        this.channel = channel;
        try {
            channel.configureBlocking(false);
            selector = Selector.open();
            key = channel.register(selector, SelectionKey.OP_READ);
        } catch (IOException e) {
            throw new UncheckedIOException("a data connection cannot be waited for", e);
        }
        thread = LogContext.thread(this::runAndClose, name);
    }

    /** Moves bytes until the connection ends. Throws on a failure, unless {@link #isClosing}. */
    abstract void run() throws IOException;

    /** The connection failed before it was closed. On its thread. */
    abstract void onFailure(Exception cause);

    /** The connection is closed, as the last action of its thread. */
    void onEnd() {
        // Does nothing by default.
    }

    final void start() {
        thread.start();
    }

    final boolean isClosing() {
        return closing;
    }

    /**
     * Sets the events that end {@link #await}; for the connection's thread. Throws if the channel is closed, which ends
     * the connection like any other failure.
     */
    final void watch(boolean reading, boolean writing) throws ClosedChannelException {
        int interest = (reading ? SelectionKey.OP_READ : 0) | (writing ? SelectionKey.OP_WRITE : 0);
        try {
            if (key.interestOps() != interest) {
                key.interestOps(interest);
            }
        } catch (CancelledKeyException e) {
            ClosedChannelException closed = new ClosedChannelException();
            closed.initCause(e);
            throw closed;
        }
    }

    /** Waits; for the connection's thread. */
    final void await() throws IOException {
        await(0);
    }

    /**
     * Waits for at most {@code atMostMs}; for the connection's thread.
     *
     * @param atMostMs 0 for no limit
     * @return false if the time is over
     */
    final boolean await(long atMostMs) throws IOException {
        boolean selected = selector.select(atMostMs) > 0;
        selector.selectedKeys().clear();
        if (closing) {
            throw new IOException("the transport was closed");
        }
        return selected;
    }

    /** Ends the wait of the connection's thread. Any thread. */
    final void wake() {
        selector.wakeup();
    }

    private void runAndClose() {
        try {
            run();
        } catch (IOException | RuntimeException e) {
            if (!closing) {
                onFailure(e);
            }
        } finally {
            try {
                closeChannel();
            } finally {
                onEnd();
            }
        }
    }

    /** Closes the connection. The channel waits for a thread that is writing to it. */
    private void closeChannel() {
        try (channel) {
            selector.close();
        } catch (IOException e) {
            LOG.warn("closing a data connection: {}", e.toString());
        }
    }

    /** Requests that the connection's thread closes it; does not block. Any thread. */
    final void requestClose() {
        closing = true;
        wake();
    }

    /** Closes connections, ends their threads, and waits for these for a bounded time. May be called twice. */
    static void closeAll(List<? extends DataConnection> connections) {
        connections.forEach(DataConnection::requestClose);
        long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(JOIN_MS);
        for (DataConnection connection : connections) {
            Thread thread = connection.thread;
            try {
                thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime())));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return;
            }
            if (thread.isAlive()) {
                LOG.error("{} did not end within {} ms after its connection was closed", thread.getName(), JOIN_MS);
            }
        }
    }
}
