package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import com.ibm.disni.verbs.RdmaCmId;
import com.ibm.disni.verbs.RdmaConnParam;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.os.LogContext;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.rdma.RdmaException.Step;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.agrona.BufferUtil;

/**
 * The source's half: its pool is registered for remote reading, and from then on the peer's device reads it without any
 * step of this process. One thread waits for the connection's end; pulls do not wake it.
 */
final class RdmaRegionExporter implements RegionExporter {
    private static final int WATCH_MS = 100;
    private static final long JOIN_MS = 2_000;
    /** The target that ends the connection says why on the control connection, which may be slower. */
    private static final long REASON_NS = TimeUnit.SECONDS.toNanos(12);

    private static final int PROOF_ALIGNMENT = 64;

    private final BufferPool pool;
    private final CmChannel channel;
    private final Endpoint endpoint;
    private final IbvMr region;
    private final MemoryProof proof;
    /** Kept while it is registered: the device reads it. */
    private final ByteBuffer secret;

    private final Consumer<String> onFailure;
    private final AtomicLong work = new AtomicLong();
    private final Thread watcher = LogContext.thread(this::watch, "ppmr-rdma-export");
    private final Teardown teardown = new Teardown(this::takeDown);
    private volatile boolean closed;

    private RdmaRegionExporter(
            BufferPool pool, CmChannel channel, Endpoint endpoint, IbvMr region, Consumer<String> onFailure)
            throws IOException {
        this.pool = pool;
        this.channel = channel;
        this.endpoint = endpoint;
        this.region = region;
        this.onFailure = onFailure;
        byte[] bytes = new byte[MemoryProof.SECRET_BYTES];
        new SecureRandom().nextBytes(bytes);
        secret = BufferUtil.allocateDirectAligned(MemoryProof.SECRET_BYTES, PROOF_ALIGNMENT);
        secret.duplicate().put(bytes);
        IbvMr secretRegion = endpoint.register(
                "the proof", BufferUtil.address(secret), MemoryProof.SECRET_BYTES, IbvMr.IBV_ACCESS_REMOTE_READ);
        proof = new MemoryProof(
                BufferUtil.address(secret), Integer.toUnsignedLong(secretRegion.getRkey()), MemoryProof.digest(bytes));
    }

    /** Connects to a target that listens; every step within the one deadline. */
    static RdmaRegionExporter connect(
            BufferPool pool, InetSocketAddress target, long deadlineNs, Consumer<String> onFailure) throws IOException {
        CmChannel channel = new CmChannel();
        RdmaCmId id = null;
        Endpoint endpoint = null;
        try {
            id = channel.createId();
            resolve(channel, id, target, deadlineNs);
            endpoint = Endpoint.open(id, target);
            IbvMr region = endpoint.register(
                    "the pool",
                    pool.baseAddress(),
                    Math.toIntExact(pool.geometry().poolBytes()),
                    IbvMr.IBV_ACCESS_REMOTE_READ);
            RdmaRegionExporter exporter = new RdmaRegionExporter(pool, channel, endpoint, region, onFailure);
            RdmaConnParam parameters = new RdmaConnParam();
            parameters.setRetry_count((byte) RdmaTransport.RETRIES);
            parameters.setRnr_retry_count((byte) RdmaTransport.RETRIES);
            id.connect(parameters);
            channel.await(EventType.RDMA_CM_EVENT_ESTABLISHED, Step.CONNECT, String.valueOf(target), deadlineNs);
            exporter.watcher.start();
            return exporter;
        } catch (IOException | RuntimeException | Error e) {
            if (endpoint != null) {
                endpoint.close();
            } else if (id != null) {
                Closing.quietly("a connection's id", id::destroyId);
            }
            channel.close();
            throw e;
        }
    }

    /** Finds the device and the path to a peer. */
    static void resolve(CmChannel channel, RdmaCmId id, InetSocketAddress peer, long deadlineNs) throws IOException {
        id.resolveAddr(null, peer, leftMs(deadlineNs));
        channel.await(EventType.RDMA_CM_EVENT_ADDR_RESOLVED, Step.ADDRESS, String.valueOf(peer), deadlineNs);
        id.resolveRoute(leftMs(deadlineNs));
        channel.await(EventType.RDMA_CM_EVENT_ROUTE_RESOLVED, Step.ROUTE, String.valueOf(peer), deadlineNs);
    }

    private static int leftMs(long deadlineNs) {
        return (int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime()));
    }

    @Override
    public long address(int chunk) {
        return pool.address(chunk);
    }

    /** The remote key: the local one would open nothing at the peer. */
    @Override
    public long key() {
        return Integer.toUnsignedLong(region.getRkey());
    }

    @Override
    public long work() {
        return work.get();
    }

    @Override
    public MemoryProof proof() {
        return proof;
    }

    @Override
    public String path() {
        return endpoint.path();
    }

    private void watch() {
        try {
            while (!closed) {
                endpoint.device().logEvents();
                RdmaCmEvent event = channel.poll(WATCH_MS);
                if (event != null) {
                    work.incrementAndGet();
                    EventType type = CmChannel.type(event);
                    if (type == EventType.RDMA_CM_EVENT_DISCONNECTED
                            || type == EventType.RDMA_CM_EVENT_DEVICE_REMOVAL) {
                        awaitReason();
                        lost(type.toString());
                        return;
                    }
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
        long deadlineNs = System.nanoTime() + REASON_NS;
        while (!closed && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(WATCH_MS));
        }
    }

    private void lost(String cause) {
        if (!closed) {
            onFailure.accept("RDMA connection to the target failed (" + endpoint.path() + "): " + cause
                    + ", closed by the target or its node is down");
        }
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        endpoint.disconnect();
        teardown.close(watcher, JOIN_MS, endpoint.path());
    }

    private void takeDown() {
        endpoint.close();
        channel.close();
    }
}
