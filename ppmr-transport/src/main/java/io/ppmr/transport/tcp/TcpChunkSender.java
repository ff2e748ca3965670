package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RailSender;
import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Sends chunks of the pool over data connections. The thread that filled a chunk writes it to the socket and never
 * blocks. The connection's own thread sends the remaining bytes as soon as the socket accepts them, and reads the
 * releases.
 *
 * <p>Only one thread writes to a socket at a time, and no other thread waits for it. A chunk that arrives during a
 * write is queued, and the writing thread sends it next. If threads waited instead, they would sleep and wake once for
 * every fourth chunk on a node with few cores ({@code docs/results/performance.md}).
 *
 * <p>Connections need no order among each other. At most one chunk of a window is under way, because the next credit
 * for it is granted only after the first arrived.
 */
public final class TcpChunkSender implements RailSender.RailConnection {
    private static final int RELEASE_BATCH = 64;
    private static final int NO_CHUNK = -1;
    /** Maximum number of chunks that one writer sends: its own, and one that another thread queued in the meantime. */
    private static final int MAX_PER_WRITER = 2;

    private static final long WRITE_LIMIT_MS = 10_000;

    private final BufferPool pool;
    private final Consumer<String> onFailure;
    private final List<Connection> connections = new ArrayList<>();
    private final AtomicLong operations = new AtomicLong();
    /** A frame for each chunk. A chunk is under way once at a time. */
    private final UnsafeBuffer frames;

    private final ByteBuffer[] frameOf;
    private volatile Releases releases;
    private volatile int attempt;

    /**
     * Takes over connected and authenticated channels.
     *
     * @param onFailure called once for each connection that fails before {@link #close}
     */
    public TcpChunkSender(BufferPool pool, List<SocketChannel> channels, Consumer<String> onFailure) {
        this.pool = pool;
        this.onFailure = onFailure;
        int chunks = pool.geometry().chunkCount();
        ByteBuffer bytes = ByteBuffer.allocateDirect(chunks * ChunkFrame.LENGTH_BYTES);
        frames = new UnsafeBuffer(bytes);
        frameOf = new ByteBuffer[chunks];
        for (int chunk = 0; chunk < chunks; chunk++) {
            frameOf[chunk] = bytes.slice(chunk * ChunkFrame.LENGTH_BYTES, ChunkFrame.LENGTH_BYTES);
        }
        for (SocketChannel channel : channels) {
            connections.add(new Connection(channel, connections.size()));
        }
        connections.forEach(DataConnection::start);
    }

    @Override
    public void begin(int sessionAttempt, Releases newReleases) {
        attempt = sessionAttempt;
        releases = newReleases;
    }

    @Override
    public void send(
            int chunk,
            int offsetInChunk,
            int lengthBytes,
            int file,
            long offset,
            int slot,
            int crc32c,
            boolean releaseSoon)
            throws IOException {
        int at = chunk * ChunkFrame.LENGTH_BYTES;
        ChunkFrame.encode(
                frames,
                at,
                attempt,
                file,
                offset,
                lengthBytes,
                crc32c,
                chunk,
                slot,
                releaseSoon ? ChunkFrame.RELEASE_SOON : 0);
        frameOf[chunk].clear();
        pool.buffer(chunk).limit(offsetInChunk + lengthBytes).position(offsetInChunk);
        leastBusy().send(chunk);
        operations.incrementAndGet();
    }

    /**
     * Returns the connection with the fewest chunks under way, which its receiver processes first. A connection to
     * which a thread is writing is the last choice.
     */
    private Connection leastBusy() {
        Connection least = connections.get(0);
        int fewest = least.load();
        for (int i = 1; i < connections.size() && fewest > 0; i++) {
            int load = connections.get(i).load();
            if (load < fewest) {
                least = connections.get(i);
                fewest = load;
            }
        }
        return least;
    }

    @Override
    public long operations() {
        return operations.get();
    }

    @Override
    public long movedBytes() {
        long sum = 0;
        for (Connection connection : connections) {
            sum += connection.writtenBytes.get();
        }
        return sum;
    }

    @Override
    public boolean hasArrived(int chunk, RailEnded report) throws ProtocolException {
        for (int i = 0; i < connections.size(); i++) {
            long order = connections.get(i).orderOf(chunk);
            if (order != Connection.NO_ORDER) {
                long arrived = i < report.arrived().size() ? report.arrived().get(i) : 0;
                return connections.get(i).hasArrived(order, arrived);
            }
        }
        return false;
    }

    @Override
    public MemoryProof proof() {
        return MemoryProof.NONE;
    }

    @Override
    public String path() {
        return connections.size() + " data connections";
    }

    @Override
    public void close() {
        DataConnection.closeAll(connections);
    }

    private final class Connection extends DataConnection {
        private static final long NO_ORDER = -1;

        private final ByteBuffer in = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES * RELEASE_BATCH);
        private final UnsafeBuffer inView = new UnsafeBuffer(in);
        private final ReleaseFrame release = new ReleaseFrame();

        /** Chunks that were sent and not released. */
        private final AtomicInteger underWay = new AtomicInteger();

        // Guarded by its monitor: the queued chunks, of which the first may be partly sent.
        private final int[] queue = new int[pool.geometry().chunkCount()];
        /** Per chunk: it was sent completely and not released. */
        private final boolean[] sent = new boolean[pool.geometry().chunkCount()];

        /** Per chunk: its order on this connection, while it is under way. */
        private final long[] orders = new long[pool.geometry().chunkCount()];

        /** The chunk that a thread is writing to the socket, or {@link #NO_CHUNK}; set while holding the monitor. */
        private volatile int writing = NO_CHUNK;

        /** The connection's thread waits for the writing thread. */
        private boolean isAwaited;

        /** Owned by the writing thread. */
        private final ByteBuffer[] pair = new ByteBuffer[2];

        /** Increased by the writing thread, read by any thread. */
        private final AtomicLong writtenBytes = new AtomicLong();

        private int first;
        private int count;
        private long nextOrder;
        private String failure;

        private Connection(SocketChannel channel, int number) {
            super(channel, "ppmr-send-" + number);
            Arrays.fill(orders, NO_ORDER);
        }

        private int load() {
            return underWay.get() + (writing == NO_CHUNK ? 0 : queue.length);
        }

        private void send(int chunk) throws IOException {
            synchronized (this) {
                requireWorking();
                if (isClosing()) {
                    throw new IOException("the transport was closed");
                }
                underWay.incrementAndGet();
                orders[chunk] = nextOrder;
                ChunkFrame.number(frames, chunk * ChunkFrame.LENGTH_BYTES, nextOrder++);
                queue[(first + count) % queue.length] = chunk;
                count++;
                if (count > 1) {
                    // The writing thread sends this chunk next, or leaves it to the connection's thread.
                    return;
                }
            }
            if (!transmit(MAX_PER_WRITER)) {
                wake();
            }
        }

        /**
         * Writes as much as the socket accepts, up to a limit of chunks, unless another thread is writing. Holds the
         * monitor only between two chunks.
         *
         * @return false if chunks remain that no thread is sending
         */
        private boolean transmit(int most) throws IOException {
            int chunk = beginWrite();
            for (int left = most; chunk != NO_CHUNK; left--) {
                boolean isWhole = false;
                boolean mayContinue = left > 1;
                int next;
                try {
                    isWhole = write(chunk);
                } catch (IOException e) {
                    mayContinue = false;
                    fail(e);
                    throw e;
                } finally {
                    next = endWrite(chunk, isWhole, mayContinue);
                }
                if (!isWhole || (next != NO_CHUNK && !mayContinue)) {
                    return false;
                }
                chunk = next;
            }
            return true;
        }

        private boolean write(int chunk) throws IOException {
            pair[0] = frameOf[chunk];
            pair[1] = pool.buffer(chunk);
            writtenBytes.lazySet(writtenBytes.get() + channel.write(pair, 0, pair.length));
            return !pair[1].hasRemaining();
        }

        /**
         * Makes the calling thread the writing thread. Returns its chunk, or {@link #NO_CHUNK} if another thread writes
         * or the queue is empty.
         */
        private synchronized int beginWrite() {
            if (writing == NO_CHUNK && count > 0) {
                writing = queue[first];
                return writing;
            }
            return NO_CHUNK;
        }

        /** Records that the writing thread wrote a chunk, or a part of it. Returns the next queued chunk. */
        private synchronized int endWrite(int chunk, boolean isWhole, boolean mayContinue) {
            int next = NO_CHUNK;
            if (isWhole) {
                sent[chunk] = true;
                first = (first + 1) % queue.length;
                count--;
                next = count > 0 ? queue[first] : NO_CHUNK;
            }
            writing = mayContinue ? next : NO_CHUNK;
            if (isAwaited) {
                notifyAll();
            }
            return next;
        }

        private synchronized void fail(Exception cause) {
            if (failure == null) {
                failure = "data connection to the target failed: " + cause;
                wake();
            }
        }

        @Override
        void run() throws IOException {
            while (true) {
                watch(true, !transmit(Integer.MAX_VALUE));
                await();
                requireWorking();
                readReleases();
            }
        }

        /** Throws after a writer failed, which ends the connection's thread. */
        private synchronized void requireWorking() throws IOException {
            if (failure != null) {
                throw new IOException(failure);
            }
        }

        private void readReleases() throws IOException {
            int read = channel.read(in);
            if (read < 0) {
                throw new EOFException("closed by the target");
            }
            int offset = 0;
            for (; in.position() - offset >= ReleaseFrame.LENGTH_BYTES; offset += ReleaseFrame.LENGTH_BYTES) {
                FrameType type = Frame.requireValid(inView, offset);
                if (type != FrameType.RELEASE
                        || Frame.lengthBytes(inView, offset) != ReleaseFrame.LENGTH_BYTES
                        || Frame.attempt(inView, offset) != attempt
                        || releases == null) {
                    throw new ProtocolException("frame " + type + " of attempt " + Frame.attempt(inView, offset)
                            + " instead of RELEASE of attempt " + attempt);
                }
                int chunk = release.wrap(inView, offset).sourceChunk();
                requireSent(chunk);
                underWay.decrementAndGet();
                releases.released(chunk);
            }
            in.flip().position(offset);
            in.compact();
        }

        /**
         * Checks that a chunk was sent completely on this connection and was not released, because it is reused next.
         * Also waits for a writer that still has to set the position of the chunk's buffer.
         */
        private synchronized void requireSent(int chunk) throws IOException {
            boolean isKnown = chunk >= 0 && chunk < sent.length;
            if (isKnown && writing == chunk) {
                awaitWritten(chunk);
            }
            if (!isKnown || !sent[chunk]) {
                throw new ProtocolException("a release of chunk " + chunk + ", which was not sent here");
            }
            sent[chunk] = false;
            orders[chunk] = NO_ORDER;
        }

        /** Waits for the thread that is writing this chunk, which does not block in the write. Requires the monitor. */
        private void awaitWritten(int chunk) throws IOException {
            long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WRITE_LIMIT_MS);
            isAwaited = true;
            try {
                while (writing == chunk) {
                    long remainingMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
                    if (remainingMs <= 0) {
                        throw new IOException("a thread writes chunk " + chunk + " to a non-blocking socket,"
                                + " and did not return within " + WRITE_LIMIT_MS + " ms");
                    }
                    wait(remainingMs);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException(
                        "the wait for a thread that writes chunk " + chunk + " was interrupted");
            } finally {
                isAwaited = false;
            }
        }

        private synchronized long orderOf(int chunk) {
            return orders[chunk];
        }

        /** Returns whether the chunk with this order is among those that arrived, as the peer reports. */
        private synchronized boolean hasArrived(long order, long arrived) throws ProtocolException {
            // A chunk that a thread did not record as written yet may have arrived.
            long sentWhole = nextOrder - count + (writing == NO_CHUNK ? 0 : 1);
            if (arrived < 0 || arrived > sentWhole) {
                throw new ProtocolException("the target reports " + arrived + " arrived chunks of " + sentWhole
                        + " sent ones: it is broken");
            }
            return order < arrived;
        }

        @Override
        void onFailure(Exception cause) {
            fail(cause);
            onFailure.accept(failure);
        }
    }
}
