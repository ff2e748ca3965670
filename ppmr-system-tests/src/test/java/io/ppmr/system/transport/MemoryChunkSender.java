package io.ppmr.system.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.linux.LogContext;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RailSender;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.agrona.UnsafeApi;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Replaces RDMA Write where there is no device and both ends are in one process. It copies a chunk's bytes and its
 * frame directly into the target's memory, before any check by the target. Then it sends a notice over a socket. It is
 * for tests, as the other end ({@link MemoryChunkReceiver}). Any thread sends. A thread of its own reads the releases.
 */
public final class MemoryChunkSender implements RailSender.RailConnection {
    private static final long JOIN_MS = 2_000;
    private static final long NOT_HERE = -1;

    private final BufferPool pool;
    private final SocketChannel channel;
    private final Consumer<String> onFailure;
    private final AtomicLong work = new AtomicLong();
    private final UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocateDirect(ChunkFrame.LENGTH_BYTES));
    private final ByteBuffer word = ByteBuffer.allocate(Integer.BYTES);
    private final Thread thread = LogContext.thread(this::run, "test-memory-sender");
    private Writable target;
    private long nextOrder;
    /** The place of each chunk among all, or {@link #NOT_HERE}. */
    private final long[] orders;

    private volatile Releases releases;
    private volatile int attempt;
    private volatile boolean closed;

    public MemoryChunkSender(BufferPool pool, SocketChannel channel, Consumer<String> onFailure) {
        this.pool = pool;
        this.channel = channel;
        this.onFailure = onFailure;
        orders = new long[pool.geometry().chunkCount()];
        Arrays.fill(orders, NOT_HERE);
        thread.start();
    }

    @Override
    public synchronized void onWritable(Writable where) {
        target = where;
    }

    @Override
    public void begin(int sessionAttempt, Releases hears) {
        attempt = sessionAttempt;
        releases = hears;
    }

    @Override
    public synchronized void send(
            int chunk, int offsetInChunk, int lengthBytes, int file, long offset, int slot, int crc32c, boolean soon)
            throws IOException {
        if (closed) {
            throw new IOException("the transport was closed");
        }
        int flags = soon ? ChunkFrame.RELEASE_SOON : 0;
        ChunkFrame.encode(frame, 0, attempt, file, offset, lengthBytes, crc32c, chunk, slot, flags);
        ChunkFrame.number(frame, 0, nextOrder);
        orders[chunk] = nextOrder;
        int entry = (int) (nextOrder++ % target.ringEntries());
        long to = target.address() + (long) slot * pool.geometry().chunkBytes() + offsetInChunk;
        UnsafeApi.copyMemory(pool.address(chunk) + offsetInChunk, to, lengthBytes);
        UnsafeApi.copyMemory(
                frame.addressOffset(),
                target.ringAddress() + (long) entry * MemoryChunkReceiver.ENTRY_BYTES,
                ChunkFrame.LENGTH_BYTES);
        channel.write(word.clear().putInt(entry).flip());
        work.incrementAndGet();
    }

    private void run() {
        ByteBuffer in = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES);
        UnsafeBuffer view = new UnsafeBuffer(in);
        ReleaseFrame release = new ReleaseFrame();
        try {
            while (true) {
                in.clear();
                while (in.hasRemaining()) {
                    if (channel.read(in) < 0) {
                        throw new EOFException("closed by the target");
                    }
                }
                if (Frame.requireValid(view, 0) != FrameType.RELEASE) {
                    throw new ProtocolException("no release");
                }
                int chunk = release.wrap(view, 0).sourceChunk();
                noteReleased(chunk);
                releases.released(chunk);
            }
        } catch (IOException e) {
            if (!closed) {
                onFailure.accept("the connection to the target failed: " + e);
            }
        }
    }

    private synchronized void noteReleased(int chunk) {
        orders[chunk] = NOT_HERE;
    }

    @Override
    public long movedBytes() {
        return work.get();
    }

    @Override
    public synchronized boolean hasArrived(int chunk, RailEnded word) {
        long arrived = word.arrived().isEmpty() ? 0 : word.arrived().get(0);
        return orders[chunk] != NOT_HERE && orders[chunk] < arrived;
    }

    @Override
    public long operations() {
        return work.get();
    }

    @Override
    public MemoryProof proof() {
        return MemoryProof.NONE;
    }

    @Override
    public String path() {
        return "memory of this process";
    }

    @Override
    public void close() {
        closed = true;
        MemoryChunkReceiver.close(channel, thread, JOIN_MS);
    }
}
