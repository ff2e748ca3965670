package io.ppmr.system.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.linux.LogContext;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RegionExporter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers a {@link SocketPuller}'s pulls out of the pool. It has one thread for each connection, which blocks in the
 * kernel while there are no requests. An address is an offset in the region. The key is random for each session.
 */
public final class SocketExporter implements RegionExporter {
    private static final Logger LOG = LoggerFactory.getLogger(SocketExporter.class);
    private static final long JOIN_MS = 2_000;
    private static final int REQUESTS_AT_ONCE = 64;

    private final BufferPool pool;
    private final long key = new SecureRandom().nextLong();
    private final List<SocketChannel> connections;
    private final List<Thread> threads = new ArrayList<>();
    private final Consumer<String> onFailure;
    private final AtomicLong work = new AtomicLong();
    private volatile boolean closed;

    /**
     * Uses connected and authenticated channels, and closes them.
     *
     * @param onFailure called once for each connection that fails before {@link #close}
     */
    public SocketExporter(BufferPool pool, List<SocketChannel> connections, Consumer<String> onFailure) {
        this.pool = pool;
        this.connections = List.copyOf(connections);
        this.onFailure = onFailure;
        for (SocketChannel connection : this.connections) {
            threads.add(LogContext.thread(() -> serve(connection), "ppmr-export-" + threads.size()));
        }
        threads.forEach(Thread::start);
    }

    @Override
    public long address(int chunk) {
        return (long) chunk * pool.geometry().chunkBytes();
    }

    private boolean isInside(long address, int lengthBytes) {
        return address >= 0
                && lengthBytes > 0
                && lengthBytes <= pool.geometry().chunkBytes()
                && address <= pool.geometry().poolBytes() - lengthBytes;
    }

    @Override
    public long key() {
        return key;
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
        return connections.size() + " data connections";
    }

    @Override
    public void close() {
        closed = true;
        connections.forEach(SocketExporter::close);
        join(threads);
    }

    static void close(SocketChannel connection) {
        try {
            connection.close();
        } catch (IOException e) {
            LOG.warn("closing a data connection: {}", e.toString());
        }
    }

    /** Waits for the threads of closed connections. Reports those that do not end. */
    static void join(List<Thread> threads) {
        long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(JOIN_MS);
        for (Thread thread : threads) {
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

    private void serve(SocketChannel connection) {
        try {
            new Connection(connection).serve();
        } catch (IOException | RuntimeException e) {
            if (!closed) {
                onFailure.accept("data connection to the target failed: " + e);
            }
        }
    }

    /** One data connection. Only its thread uses it. */
    private final class Connection {
        private final SocketChannel channel;
        private final ByteBuffer requests = ByteBuffer.allocateDirect(PullFrames.REQUEST_BYTES * REQUESTS_AT_ONCE)
                .order(ByteOrder.LITTLE_ENDIAN);
        private final ByteBuffer header =
                ByteBuffer.allocateDirect(PullFrames.ANSWER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        private final ByteBuffer region = pool.region().duplicate();
        private final ByteBuffer[] answer = {header, region};

        private Connection(SocketChannel channel) {
            this.channel = channel;
        }

        private void serve() throws IOException {
            while (channel.read(requests) >= 0) {
                requests.flip();
                while (requests.remaining() >= PullFrames.REQUEST_BYTES) {
                    answer();
                }
                requests.compact();
            }
            if (!closed) {
                throw new IOException("closed by the target");
            }
        }

        private void answer() throws IOException {
            work.incrementAndGet();
            long pullId = requests.getLong();
            long address = requests.getLong();
            long requestKey = requests.getLong();
            int lengthBytes = requests.getInt();
            int magic = requests.getInt();
            boolean allowed = magic == PullFrames.MAGIC && requestKey == key && isInside(address, lengthBytes);
            header.clear();
            if (allowed) {
                PullFrames.putAnswer(header, pullId, PullFrames.OK, lengthBytes);
                region.limit((int) address + lengthBytes).position((int) address);
            } else {
                PullFrames.putAnswer(header, pullId, PullFrames.OUTSIDE, 0);
                region.limit(0).position(0);
            }
            header.flip();
            while (header.hasRemaining() || region.hasRemaining()) {
                channel.write(answer, 0, answer.length);
            }
            if (!allowed) {
                throw new IOException("the target asked for " + lengthBytes + " bytes at 0x" + Long.toHexString(address)
                        + ", which is outside the region or has a wrong key");
            }
        }
    }
}
