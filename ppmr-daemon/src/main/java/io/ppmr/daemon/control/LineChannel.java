package io.ppmr.daemon.control;

import java.io.EOFException;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * A connection that carries lines of text, with a deadline on each and a limit to their length. Owned by one thread; a
 * close from another one ends its waits.
 */
final class LineChannel implements AutoCloseable {
    /** The longest line in bytes, with its end. */
    static final int MAX_LINE_BYTES = 64 * 1024;

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private final ByteBuffer in = ByteBuffer.allocate(MAX_LINE_BYTES);

    LineChannel(SocketChannel channel) throws IOException {
        this.channel = channel;
        channel.configureBlocking(false);
        selector = Selector.open();
        key = channel.register(selector, 0);
    }

    /**
     * The next line, without its end.
     *
     * @throws SocketTimeoutException if none is complete within the limit
     * @throws EOFException if the peer has closed
     * @throws IOException if it is too long, or the connection is lost
     */
    String readLine(Duration limit) throws IOException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        int scanned = 0;
        while (true) {
            for (; scanned < in.position(); scanned++) {
                if (in.get(scanned) == '\n') {
                    return take(scanned);
                }
            }
            if (!in.hasRemaining()) {
                throw new IOException("a line of more than " + MAX_LINE_BYTES + " bytes: this is not our protocol");
            }
            int got = channel.read(in);
            if (got < 0) {
                throw new EOFException("the peer has closed the control connection");
            }
            if (got == 0) {
                await(SelectionKey.OP_READ, deadlineNs, limit);
            }
        }
    }

    private String take(int end) {
        String line = new String(in.array(), 0, end, StandardCharsets.UTF_8);
        in.flip().position(end + 1);
        in.compact();
        return line;
    }

    /** Whether the peer has closed, as far as can be told without waiting. */
    boolean peerHasClosed() throws IOException {
        return !channel.isOpen() || (in.hasRemaining() && channel.read(in) < 0);
    }

    /** Sends a line, which must not contain a line end. */
    void writeLine(String line, Duration limit) throws IOException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        ByteBuffer out = ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8));
        if (out.remaining() > MAX_LINE_BYTES) {
            throw new IOException("a line of " + out.remaining() + " bytes is longer than " + MAX_LINE_BYTES);
        }
        while (out.hasRemaining()) {
            if (channel.write(out) == 0) {
                await(SelectionKey.OP_WRITE, deadlineNs, limit);
            }
        }
    }

    private void await(int operation, long deadlineNs, Duration limit) throws IOException {
        long leftMs = (deadlineNs - System.nanoTime()) / 1_000_000;
        if (leftMs <= 0) {
            throw new SocketTimeoutException("the control connection's peer is silent for " + limit.toMillis() + " ms");
        }
        key.interestOps(operation);
        selector.select(leftMs);
        selector.selectedKeys().clear();
        if (Thread.currentThread().isInterrupted() || !channel.isOpen()) {
            throw new IOException("the control connection was closed");
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
        selector.close();
    }
}
