package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.os.LogContext;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RegionExporter;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * The source's half of reads: its pool is registered for remote reading, and from then on the peer's device reads it
 * without any step of this process. One thread waits for the connection's end; pulls do not wake it.
 */
final class RdmaRegionExporter implements RegionExporter {
    private static final int WATCH_MS = 100;
    private static final long JOIN_MS = 2_000;

    private final BufferPool pool;
    private final SourceConnection connection;
    private final Consumer<String> onFailure;
    private final AtomicLong work = new AtomicLong();
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

    /** Connects to a target that listens; every step within the one deadline. */
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

    /** The remote key: the local one would open nothing at the peer. */
    @Override
    public long key() {
        return Integer.toUnsignedLong(connection.region().getRkey());
    }

    @Override
    public long work() {
        return work.get();
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
                if (connection.hears(WATCH_MS, event -> ended = event)) {
                    work.incrementAndGet();
                }
                if (ended != null) {
                    awaitReason();
                    lost(ended);
                    return;
                }
            }
        } catch (IOException | RuntimeException | Error e) {
            lost(e.toString());
        } finally {
            teardown.threadEnds();
        }
    }

    /** The other side's own words end the session, and close this, before its bare end does. */
    private void awaitReason() {
        long deadlineNs = System.nanoTime() + SourceConnection.REASON_NS;
        while (!closed && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(WATCH_MS));
        }
    }

    private void lost(String cause) {
        if (!closed) {
            onFailure.accept(connection.lost(cause));
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
