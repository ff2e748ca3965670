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
 * Sends chunks over data connections, out of the pool. The thread that has filled a chunk writes it into the socket; it
 * never waits there: what the socket does not take, the connection's own thread sends as soon as it does. That thread
 * also reads the releases.
 *
 * <p>One thread writes into a socket at a time, and no other waits for it: a chunk that comes meanwhile is queued, and
 * the thread that writes sends it next. Threads that waited for each other there would be put to sleep and woken once
 * for every fourth chunk on a node whose cores are few ({@code docs/results/performance.md}).
 *
 * <p>Connections have no order among each other, and need none: at most one chunk of a window is under way, since a
 * further credit for it is granted when the first has arrived.
 */
public final class TcpChunkSender implements RailSender.RailConnection {
    private static final int RELEASES_AT_ONCE = 64;
    private static final int NO_CHUNK = -1;
    /** So many chunks one writer sends: its own, and one that another has queued meanwhile. */
    private static final int MOST_BY_A_WRITER = 2;

    private static final long WRITE_LIMIT_MS = 10_000;

    private final BufferPool pool;
    private final Consumer<String> onFailure;
    private final List<Connection> connections = new ArrayList<>();
    private final AtomicLong work = new AtomicLong();
    /** A frame for each chunk; a chunk is on its way once at a time. */
    private final UnsafeBuffer frames;

    private final ByteBuffer[] frameOf;
    private volatile Releases releases;
    private volatile int attempt;

    /**
     * Takes over connected and authenticated channels.
     *
     * @param onFailure told once for each connection that fails before {@link #close}
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
    public void begin(int sessionAttempt, Releases hears) {
        attempt = sessionAttempt;
        releases = hears;
    }

    @Override
    public void send(
            int chunk, int offsetInChunk, int lengthBytes, int file, long offset, int slot, int crc32c, boolean soon)
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
                soon ? ChunkFrame.RELEASE_SOON : 0);
        frameOf[chunk].clear();
        pool.buffer(chunk).limit(offsetInChunk + lengthBytes).position(offsetInChunk);
        leastBusy().send(chunk);
        work.incrementAndGet();
    }

    /**
     * The connection with the fewest chunks under way: its receiver gets to this one first. One into which a thread
     * writes just now is the last choice.
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
    public long work() {
        return work.get();
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
    public boolean hasArrived(int chunk, RailEnded word) throws ProtocolException {
        for (int i = 0; i < connections.size(); i++) {
            long order = connections.get(i).orderOf(chunk);
            if (order != Connection.NOT_HERE) {
                long arrived = i < word.arrived().size() ? word.arrived().get(i) : 0;
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
        private static final long NOT_HERE = -1;

        private final ByteBuffer in = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES * RELEASES_AT_ONCE);
        private final UnsafeBuffer inView = new UnsafeBuffer(in);
        private final ReleaseFrame release = new ReleaseFrame();

        /** Chunks that were sent and have not come back. */
        private final AtomicInteger underWay = new AtomicInteger();

        // Guarded by its monitor: what is to be sent, the first of it perhaps in part.
        private final int[] queue = new int[pool.geometry().chunkCount()];
        /** Of each chunk: it was sent whole and has not come back. */
        private final boolean[] sent = new boolean[pool.geometry().chunkCount()];

        /** Of each chunk its order here, while it is on its way. */
        private final long[] orders = new long[pool.geometry().chunkCount()];

        /** The chunk that a thread writes into the socket just now, or {@link #NO_CHUNK}; set under the monitor. */
        private volatile int writing = NO_CHUNK;

        /** The connection's thread waits for the one that writes. */
        private boolean isAwaited;

        /** Of the thread that writes. */
        private final ByteBuffer[] pair = new ByteBuffer[2];

        /** Added to by the thread that writes, read by any thread. */
        private final AtomicLong writtenBytes = new AtomicLong();

        private int first;
        private int count;
        private long nextOrder;
        private String failure;

        private Connection(SocketChannel channel, int number) {
            super(channel, "ppmr-send-" + number);
            Arrays.fill(orders, NOT_HERE);
        }

        private int load() {
            return underWay.get() + (writing == NO_CHUNK ? 0 : queue.length);
        }

        private void send(int chunk) throws IOException {
            synchronized (this) {
                requireWhole();
                if (isClosing()) {
                    throw new IOException("the transport was closed");
                }
                underWay.incrementAndGet();
                orders[chunk] = nextOrder;
                ChunkFrame.number(frames, chunk * ChunkFrame.LENGTH_BYTES, nextOrder++);
                queue[(first + count) % queue.length] = chunk;
                count++;
                if (count > 1) {
                    // The thread that writes the first of them continues, or leaves the rest to the connection's
                    // thread.
                    return;
                }
            }
            if (!transmit(MOST_BY_A_WRITER)) {
                wake();
            }
        }

        /**
         * Writes as much as the socket accepts, up to a limit of chunks, unless another thread is writing. Not under
         * the monitor, except between two chunks.
         *
         * @return false if something is left that no thread sends yet
         */
        private boolean transmit(int most) throws IOException {
            int chunk = begin();
            for (int left = most; chunk != NO_CHUNK; left--) {
                boolean isWhole = false;
                boolean mayGoOn = left > 1;
                int next;
                try {
                    isWhole = write(chunk);
                } catch (IOException e) {
                    mayGoOn = false;
                    fail(e);
                    throw e;
                } finally {
                    next = wrote(chunk, isWhole, mayGoOn);
                }
                if (!isWhole || (next != NO_CHUNK && !mayGoOn)) {
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

        /** Makes the calling thread the one that writes; gives the chunk, or {@link #NO_CHUNK} if it is not to. */
        private synchronized int begin() {
            if (writing == NO_CHUNK && count > 0) {
                writing = queue[first];
                return writing;
            }
            return NO_CHUNK;
        }

        /** The thread that writes has written a chunk, or a part of it; gives the next one that there is. */
        private synchronized int wrote(int chunk, boolean isWhole, boolean mayGoOn) {
            int next = NO_CHUNK;
            if (isWhole) {
                sent[chunk] = true;
                first = (first + 1) % queue.length;
                count--;
                next = count > 0 ? queue[first] : NO_CHUNK;
            }
            writing = mayGoOn ? next : NO_CHUNK;
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
                requireWhole();
                readReleases();
            }
        }

        /** Ends its thread after a writer has met with an error. */
        private synchronized void requireWhole() throws IOException {
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
                            + " where a release of attempt " + attempt + " was due");
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
         * Requires that a chunk was sent whole on this connection and has not come back: it is used for other bytes
         * next. A writer that is about to return from writing it, and to set its buffer's position, has done so then.
         */
        private synchronized void requireSent(int chunk) throws IOException {
            boolean isOurs = chunk >= 0 && chunk < sent.length;
            if (isOurs && writing == chunk) {
                awaitWritten(chunk);
            }
            if (!isOurs || !sent[chunk]) {
                throw new ProtocolException("a release of chunk " + chunk + ", which was not sent here");
            }
            sent[chunk] = false;
            orders[chunk] = NOT_HERE;
        }

        /** Waits for the thread that writes this chunk just now; it does not block in that. Under the monitor. */
        private void awaitWritten(int chunk) throws IOException {
            long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WRITE_LIMIT_MS);
            isAwaited = true;
            try {
                while (writing == chunk) {
                    long leftMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
                    if (leftMs <= 0) {
                        throw new IOException("a thread writes chunk " + chunk + " into a socket that does not block,"
                                + " and has not ended that within " + WRITE_LIMIT_MS + " ms");
                    }
                    wait(leftMs);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("the wait for a thread that writes chunk " + chunk + " was ended");
            } finally {
                isAwaited = false;
            }
        }

        private synchronized long orderOf(int chunk) {
            return orders[chunk];
        }

        /** Returns whether the chunk with this order is among those that arrived, as the peer reports. */
        private synchronized boolean hasArrived(long order, long arrived) throws ProtocolException {
            // A chunk that a thread is about to note as written may have arrived.
            long sentWhole = nextOrder - count + (writing == NO_CHUNK ? 0 : 1);
            if (arrived < 0 || arrived > sentWhole) {
                throw new ProtocolException(
                        arrived + " chunks have arrived of " + sentWhole + " that were sent: the target is broken");
            }
            return order < arrived;
        }

        @Override
        void failed(Exception cause) {
            fail(cause);
            onFailure.accept(failure);
        }
    }
}
