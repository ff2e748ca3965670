package io.ppmr.transport.tcp;

import io.ppmr.os.LogContext;
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
 * One data connection and its thread, at either end. The thread waits in the kernel until bytes come, until the socket
 * takes some where {@link #watch} asked for that, or until {@link #wake} is called. Nothing spins.
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

    /** Moves bytes until the connection ends; throws where that is a failure, unless {@link #isClosing}. */
    abstract void run() throws IOException;

    /** The connection has failed before it was closed. On its thread. */
    abstract void failed(Exception cause);

    /** The connection is closed, and its thread does nothing more. On that thread, as the last thing. */
    void ended() {
        // Who wants to know it says so.
    }

    final void start() {
        thread.start();
    }

    final boolean isClosing() {
        return closing;
    }

    /**
     * Asks to be woken when the socket takes bytes, or no more; for the connection's thread. Throws if the channel is
     * closed: that is an end of the connection like any other.
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
     * Waits for at most so long; for the connection's thread.
     *
     * @param atMostMs 0 for as long as it takes
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
                failed(e);
            }
        } finally {
            try {
                closeChannel();
            } finally {
                ended();
            }
        }
    }

    /** Closes the connection; the channel waits for a thread that is in the middle of writing into it. */
    private void closeChannel() {
        try (channel) {
            selector.close();
        } catch (IOException e) {
            LOG.warn("closing a data connection: {}", e.toString());
        }
    }

    /** Has the connection closed by its thread, soon; does not wait. Any thread. */
    final void beginToClose() {
        closing = true;
        wake();
    }

    /** Ends connections and their threads, and waits for them, bounded; may be called twice. */
    static void closeAll(List<? extends DataConnection> connections) {
        connections.forEach(DataConnection::beginToClose);
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
