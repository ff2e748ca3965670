package io.ppmr.daemon.control;

import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * A connection for lines of text, with a deadline and a maximum length for each. One thread owns it. A close by another
 * thread ends its waits.
 */
final class LineChannel implements AutoCloseable {
    /** The longest line to a service, in bytes, with its end. */
    static final int MAX_LINE_BYTES = 64 * 1024;

    /** The longest line of an answer: a report names every process of every rank. */
    static final int MAX_ANSWER_BYTES = 4 << 20;

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    private final int mostInBytes;
    private final int mostOutBytes;
    private ByteBuffer in = ByteBuffer.allocate(MAX_LINE_BYTES);

    private LineChannel(SocketChannel channel, int mostInBytes, int mostOutBytes) throws IOException {
        this.channel = channel;
        this.mostInBytes = mostInBytes;
        this.mostOutBytes = mostOutBytes;
        channel.configureBlocking(false);
        selector = Selector.open();
        key = channel.register(selector, 0);
    }

    /** Creates the channel of a service. */
    static LineChannel ofService(SocketChannel channel) throws IOException {
        return new LineChannel(channel, MAX_LINE_BYTES, MAX_ANSWER_BYTES);
    }

    /** Creates the channel of a client. */
    static LineChannel ofClient(SocketChannel channel) throws IOException {
        return new LineChannel(channel, MAX_ANSWER_BYTES, MAX_LINE_BYTES);
    }

    /**
     * Reads the next line, without its end.
     *
     * @throws SocketTimeoutException if no line is complete within the limit
     * @throws EOFException if the peer closed the connection
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
                grow();
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

    private void grow() throws IOException {
        if (in.capacity() >= mostInBytes) {
            throw new IOException("a line of more than " + mostInBytes + " bytes: this is not our protocol");
        }
        in = ByteBuffer.allocate(Math.min(mostInBytes, 2 * in.capacity())).put(in.flip());
    }

    private String take(int end) {
        String line = new String(in.array(), 0, end, StandardCharsets.UTF_8);
        in.flip().position(end + 1);
        in.compact();
        return line;
    }

    /** Returns true if the peer closed the connection. Does not wait, so a recent close may be missed. */
    boolean peerHasClosed() throws IOException {
        return !channel.isOpen() || (in.hasRemaining() && channel.read(in) < 0);
    }

    /** Writes a line that must not contain a line end. */
    @FunctionalInterface
    interface LineWriter {
        void writeTo(OutputStream to) throws IOException;
    }

    /** Sends a line piece by piece, so that it is never on the heap as a whole. */
    void write(LineWriter line, Duration limit) throws IOException {
        Pieces pieces = new Pieces(System.nanoTime() + limit.toNanos(), limit);
        line.writeTo(pieces);
        pieces.write('\n');
    }

    /** Sends written bytes to the channel at once, up to the longest line. */
    private final class Pieces extends OutputStream {
        private final long deadlineNs;
        private final Duration limit;
        private int leftBytes = mostOutBytes;

        private Pieces(long deadlineNs, Duration limit) {
            this.deadlineNs = deadlineNs;
            this.limit = limit;
        }

        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            if (length > leftBytes) {
                throw new IOException("a line is longer than " + mostOutBytes + " bytes");
            }
            leftBytes -= length;
            send(ByteBuffer.wrap(bytes, offset, length), deadlineNs, limit);
        }
    }

    /** Sends a line, which must not contain a line end. */
    void writeLine(String line, Duration limit) throws IOException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        ByteBuffer out = ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8));
        if (out.remaining() > mostOutBytes) {
            throw new IOException("a line of " + out.remaining() + " bytes is longer than " + mostOutBytes);
        }
        send(out, deadlineNs, limit);
    }

    private void send(ByteBuffer out, long deadlineNs, Duration limit) throws IOException {
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
