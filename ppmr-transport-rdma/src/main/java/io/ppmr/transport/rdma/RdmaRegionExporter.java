package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.linux.LogContext;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RegionExporter;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * The source's half of RDMA Read. Its pool is registered for remote reads, which then need no operation of this
 * process. One thread waits for the connection's end. Reads do not wake it.
 */
final class RdmaRegionExporter implements RegionExporter {
    private static final int WATCH_MS = 100;
    private static final long JOIN_MS = 2_000;

    private final BufferPool pool;
    private final SourceConnection connection;
    private final Consumer<String> onFailure;
    private final AtomicLong operations = new AtomicLong();
    private final Thread watcher = LogContext.thread(this::watch, "ppmr-rdma-export");
    private final Teardown teardown;
    private volatile String ended;
    private volatile boolean closed;

    private RdmaRegionExporter(BufferPool pool, SourceConnection connection, Consumer<String> onFailure) {
        this.pool = pool;
        this.connection = connection;
        this.onFailure = onFailure;
        teardown = new Teardown(connection::takeDown);
    }

    /** Connects to a listening target. All steps share one deadline. */
    static RdmaRegionExporter connect(
            BufferPool pool, InetSocketAddress target, long deadlineNs, Consumer<String> onFailure) throws IOException {
        RdmaRegionExporter exporter = new RdmaRegionExporter(
                pool, SourceConnection.open(pool, IbvMr.IBV_ACCESS_REMOTE_READ, null, target, deadlineNs), onFailure);
        exporter.watcher.start();
        return exporter;
    }

    @Override
    public long address(int chunk) {
        return pool.address(chunk);
    }

    /** The remote key, since the peer cannot use the local one. */
    @Override
    public long key() {
        return Integer.toUnsignedLong(connection.region().getRkey());
    }

    @Override
    public long operations() {
        return operations.get();
    }

    @Override
    public MemoryProof proof() {
        return connection.proof();
    }

    @Override
    public String path() {
        return connection.endpoint().path();
    }

    private void watch() {
        try {
            while (!closed) {
                connection.endpoint().device().logEvents();
                if (connection.pollDisconnect(WATCH_MS, event -> ended = event)) {
                    operations.incrementAndGet();
                }
                if (ended != null) {
                    awaitReason();
                    reportLoss(ended);
                    return;
                }
            }
        } catch (IOException | RuntimeException | Error e) {
            reportLoss(e.toString());
        } finally {
            teardown.onThreadEnd();
        }
    }

    /** The reason from the other side, on the control connection, ends the session before the bare disconnect does. */
    private void awaitReason() {
        long deadlineNs = System.nanoTime() + SourceConnection.REASON_NS;
        while (!closed && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(WATCH_MS));
        }
    }

    private void reportLoss(String cause) {
        if (!closed) {
            onFailure.accept(connection.lossText(cause));
        }
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        connection.endpoint().disconnect();
        teardown.close(watcher, JOIN_MS, path());
    }
}
