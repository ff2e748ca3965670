package io.ppmr.system.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.linux.LogContext;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkReceiver;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The target's end of {@link MemoryChunkSender}. As with RDMA Write, the bytes are there when it is notified. One
 * thread of its own receives them.
 */
public final class MemoryChunkReceiver implements ChunkReceiver {
    static final int ENTRY_BYTES = 64;

    private static final long JOIN_MS = 2_000;

    private final BufferPool pool;
    private final SocketChannel channel;
    private final UnsafeBuffer ring;
    private final UnsafeBuffer frame = new UnsafeBuffer(new byte[ChunkFrame.LENGTH_BYTES]);
    private final Thread thread;
    private Arrivals arrivals;
    private volatile boolean closed;

    /** Makes the chunks of this pool writable. {@link #open} begins to receive them. */
    public MemoryChunkReceiver(BufferPool pool, SocketChannel channel) {
        this.pool = pool;
        this.channel = channel;
        ring = new UnsafeBuffer(ByteBuffer.allocateDirect(pool.geometry().chunkCount() * ENTRY_BYTES));
        thread = LogContext.thread(this::run, "test-memory-receiver");
    }

    /** Returns the memory that the source may write. */
    public Writable writable() {
        return new Writable(
                pool.baseAddress(), 0, ring.addressOffset(), 0, pool.geometry().chunkCount());
    }

    /** Receives chunks from now on. Returns this. */
    public MemoryChunkReceiver open(Arrivals hears) {
        arrivals = hears;
        thread.start();
        return this;
    }

    private void run() {
        ByteBuffer word = ByteBuffer.allocate(Integer.BYTES);
        ByteBuffer out = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES);
        UnsafeBuffer outView = new UnsafeBuffer(out);
        ChunkFrame chunk = new ChunkFrame();
        long nextOrder = 0;
        try {
            while (true) {
                word.clear();
                while (word.hasRemaining()) {
                    if (channel.read(word) < 0) {
                        throw new EOFException("closed by the source");
                    }
                }
                frame.putBytes(0, ring, word.getInt(0) * ENTRY_BYTES, ChunkFrame.LENGTH_BYTES);
                Frame.requireValid(frame, 0);
                chunk.wrap(frame, 0);
                if (chunk.order() != nextOrder++) {
                    throw new ProtocolException("chunk " + chunk.order() + " out of order");
                }
                arrivals.onChunkStart(chunk);
                if (!arrivals.onChunkEnd(chunk)) {
                    return;
                }
                ReleaseFrame.encode(outView, 0, chunk.attempt(), chunk.file(), chunk.order(), chunk.sourceChunk());
                channel.write(out.clear());
            }
        } catch (ProtocolException e) {
            arrivals.onProtocolError("chunks cannot be taken: " + e);
        } catch (IOException e) {
            if (!closed && !(e instanceof EOFException)) {
                arrivals.onConnectionLost("the connection to the source failed: " + e);
            }
        }
    }

    @Override
    public void close() {
        closed = true;
        close(channel, thread, JOIN_MS);
    }

    static void close(SocketChannel channel, Thread thread, long joinMs) {
        try {
            channel.close();
            thread.join(joinMs);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
