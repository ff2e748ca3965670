package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import com.ibm.disni.verbs.RdmaCmId;
import com.ibm.disni.verbs.RdmaConnParam;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.rdma.RdmaException.ConnectStep;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.concurrent.TimeUnit;
import org.agrona.BufferUtil;

/**
 * The source's end of a connection, for RDMA Read and RDMA Write. It consists of the connection manager's channel, the
 * endpoint, the pool's registration, and the proof that the target reads. Owned by the exporter or the sender, which
 * closes it once.
 */
final class SourceConnection {
    /** If the target closes the connection, its reason arrives on the control connection, which may be slower. */
    static final long REASON_NS = TimeUnit.SECONDS.toNanos(12);

    private static final int PROOF_ALIGNMENT = 64;

    private final CmChannel channel;
    private final Endpoint endpoint;
    private final IbvMr region;
    private final MemoryProof proof;
    /** Kept while it is registered, because the device reads it. */
    private final ByteBuffer secret = BufferUtil.allocateDirectAligned(MemoryProof.SECRET_BYTES, PROOF_ALIGNMENT);

    private SourceConnection(CmChannel channel, Endpoint endpoint, IbvMr region) throws IOException {
        this.channel = channel;
        this.endpoint = endpoint;
        this.region = region;
        byte[] bytes = new byte[MemoryProof.SECRET_BYTES];
        new SecureRandom().nextBytes(bytes);
        secret.duplicate().put(bytes);
        IbvMr secretRegion = endpoint.register(
                "the proof", BufferUtil.address(secret), MemoryProof.SECRET_BYTES, IbvMr.IBV_ACCESS_REMOTE_READ);
        proof = new MemoryProof(
                BufferUtil.address(secret), Integer.toUnsignedLong(secretRegion.getRkey()), MemoryProof.digest(bytes));
    }

    /**
     * Connects to a listening target. All steps share one deadline.
     *
     * @param from this node's address that it leaves from; null to let the kernel choose
     * @param poolAccess the access of the peer and this node's device to the pool (ibv_reg_mr(3))
     */
    static SourceConnection open(
            BufferPool pool, int poolAccess, InetAddress from, InetSocketAddress target, long deadlineNs)
            throws IOException {
        CmChannel channel = new CmChannel();
        RdmaCmId id = null;
        Endpoint endpoint = null;
        try {
            id = channel.createId();
            resolve(channel, id, from, target, deadlineNs);
            endpoint = Endpoint.open(id, target);
            IbvMr region = endpoint.register(
                    "the pool",
                    pool.baseAddress(),
                    Math.toIntExact(pool.geometry().poolBytes()),
                    poolAccess);
            SourceConnection made = new SourceConnection(channel, endpoint, region);
            RdmaConnParam parameters = new RdmaConnParam();
            parameters.setRetry_count((byte) RdmaTransport.RETRIES);
            parameters.setRnr_retry_count((byte) RdmaTransport.RETRIES);
            id.connect(parameters);
            channel.await(EventType.RDMA_CM_EVENT_ESTABLISHED, ConnectStep.CONNECT, String.valueOf(target), deadlineNs);
            return made;
        } catch (IOException | RuntimeException | Error e) {
            if (endpoint != null) {
                endpoint.close();
            } else if (id != null) {
                CloseSequence.quietly("a connection's id", id::destroyId);
            }
            channel.close();
            throw e;
        }
    }

    /** Resolves the device and the path to a peer. {@code from} is null to let the kernel choose. */
    static void resolve(CmChannel channel, RdmaCmId id, InetAddress from, InetSocketAddress peer, long deadlineNs)
            throws IOException {
        if (from != null) {
            id.bindAddr(new InetSocketAddress(from, 0));
        }
        id.resolveAddr(null, peer, remainingMs(deadlineNs));
        channel.await(EventType.RDMA_CM_EVENT_ADDR_RESOLVED, ConnectStep.ADDRESS, String.valueOf(peer), deadlineNs);
        id.resolveRoute(remainingMs(deadlineNs));
        channel.await(EventType.RDMA_CM_EVENT_ROUTE_RESOLVED, ConnectStep.ROUTE, String.valueOf(peer), deadlineNs);
    }

    private static int remainingMs(long deadlineNs) {
        return (int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime()));
    }

    Endpoint endpoint() {
        return endpoint;
    }

    /** The pool's registration. */
    IbvMr region() {
        return region;
    }

    MemoryProof proof() {
        return proof;
    }

    /**
     * Waits for the next event of the connection, up to the time-out.
     *
     * @return whether there was an event
     */
    boolean pollDisconnect(int timeoutMs, DisconnectListener listener) throws IOException {
        RdmaCmEvent event = channel.poll(timeoutMs);
        if (event == null) {
            return false;
        }
        EventType type = CmChannel.type(event);
        if (type == EventType.RDMA_CM_EVENT_DISCONNECTED || type == EventType.RDMA_CM_EVENT_DEVICE_REMOVAL) {
            listener.onDisconnect(type.toString());
        }
        return true;
    }

    /** Called when the other side, or this node's device, closed the connection. */
    @FunctionalInterface
    interface DisconnectListener {
        void onDisconnect(String event);
    }

    /** Returns an error text for a connection that ended unexpectedly. */
    String lossText(String cause) {
        return "RDMA connection to the target failed (" + endpoint.path() + "): " + cause
                + ", closed by the target or its node is down";
    }

    /** Closes it; called once, when no thread uses it. */
    void takeDown() {
        endpoint.close();
        channel.close();
    }
}
