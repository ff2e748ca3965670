package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import com.ibm.disni.verbs.RdmaCmId;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.os.RareLog;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.Transport;
import io.ppmr.transport.rdma.RdmaException.ConnectStep;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Listens for one source on a port of its own. The connection manager does not prove the peer's address, so every
 * connection that says it is the source's is taken, up to a number, and the source's own is found by the proof;
 * whatever the others do ends their own connection alone.
 *
 * <p>The listening id, the connections and their ids share one event channel, since DiSNI cannot move an id to another
 * (rdma_migrate_id(3)). All are this object's until the proof has held. Then the listening id and the other connections
 * are destroyed, and the channel is the proved connection's. So no id outlives its channel.
 */
final class RdmaListener implements Transport.TransportListener {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaListener.class);
    /** Connections that say they are the source's, at once. */
    private static final int MOST_CANDIDATES = 8;

    private static final int SLICE_MS = 100;
    /** A peer that has not established its connection by then makes room. */
    private static final long ESTABLISH_NS = TimeUnit.SECONDS.toNanos(5);

    private static final long PROOF_POLL_NS = TimeUnit.MICROSECONDS.toNanos(200);

    private final BufferPool pool;
    private final RdmaMode mode;
    private final Duration readDeadline;
    private final CmChannel channel;
    private final RdmaCmId listenId;
    private final int port;
    private final List<UnprovedConnection> candidates = new ArrayList<>();
    private final RareLog refusals = new RareLog(LOG::warn);
    private InetAddress source;
    private String lastFailure;
    private boolean over;

    RdmaListener(BufferPool pool, InetAddress address, RdmaMode mode, Duration readDeadline) throws IOException {
        this.pool = pool;
        this.mode = mode;
        this.readDeadline = readDeadline;
        channel = new CmChannel();
        RdmaCmId id = null;
        try {
            id = channel.createId();
            id.bindAddr(new InetSocketAddress(address, 0));
            Device.of(id.getVerbs()).requireUsable();
            id.listen(MOST_CANDIDATES);
            listenId = id;
            port = ((InetSocketAddress) id.getSource()).getPort();
        } catch (IOException | RuntimeException e) {
            if (id != null) {
                CloseSequence.quietly("a listener", id::destroyId);
            }
            channel.close();
            throw new IOException(
                    "RDMA cannot listen on " + address.getHostAddress() + ": " + e.getMessage()
                            + " (is that the address of a network device with InfiniBand or RoCE?)",
                    e);
        }
    }

    @Override
    public int port() {
        return port;
    }

    @Override
    public Transport.TransportPeer accept(InetAddress from, Duration deadline, BooleanSupplier spoken)
            throws IOException {
        source = from;
        long startNs = System.nanoTime();
        while (!spoken.getAsBoolean()) {
            long leftMs = deadline.toMillis() - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
            if (leftMs <= 0) {
                throw RdmaException.late(ConnectStep.ACCEPT, from.getHostAddress(), deadline.toMillis(), lastFailure);
            }
            step((int) Math.min(SLICE_MS, leftMs));
        }
        return candidates.isEmpty() ? null : new RdmaPeer(this, pool, mode, readDeadline);
    }

    /**
     * Finds the source's connection among those that have come, which ends the listening and all others.
     *
     * @throws IOException if none of them is the source's, or the answer does not come within the deadline
     */
    UnprovedConnection prove(MemoryProof proof, Duration deadline) throws IOException {
        long deadlineNs = System.nanoTime() + deadline.toNanos();
        while (!candidates.isEmpty()) {
            if (System.nanoTime() - deadlineNs > 0) {
                throw new IOException("RDMA (" + candidates.get(0).endpoint().path()
                        + "): the proof has not come within " + deadline + said());
            }
            for (UnprovedConnection candidate : List.copyOf(candidates)) {
                if (isProved(candidate, proof)) {
                    candidates.remove(candidate);
                    endListening();
                    return candidate;
                }
            }
            step(0);
            LockSupport.parkNanos(PROOF_POLL_NS);
        }
        throw new IOException("RDMA: no connection is that of the source of this session" + said());
    }

    /** Whose ids all have ended but the proved connection's. */
    CmChannel channel() {
        return channel;
    }

    private String said() {
        return lastFailure == null ? "" : " (" + lastFailure + ")";
    }

    private boolean isProved(UnprovedConnection candidate, MemoryProof proof) {
        String path = candidate.endpoint().path();
        try {
            int status = candidate.answer(proof);
            if (status == UnprovedConnection.NO_ANSWER) {
                return false;
            }
            if (status != WorkFailure.SUCCESS) {
                drop(candidate, WorkFailure.text("RDMA Read of the proof", status, path));
            } else if (candidate.holds(proof)) {
                return true;
            } else {
                drop(
                        candidate,
                        "RDMA (" + path + "): the other end is not the source of this session: its memory does not"
                                + " hold what the control connection promised");
            }
        } catch (IOException | RuntimeException e) {
            drop(candidate, "RDMA (" + path + "): the proof cannot be read: " + e.getMessage());
        }
        return false;
    }

    // ---- the connection manager's events ----------------------------------------------------------------------

    private void step(int timeoutMs) throws IOException {
        RdmaCmEvent event = channel.poll(timeoutMs);
        if (event != null) {
            EventType type = CmChannel.type(event);
            if (type == EventType.RDMA_CM_EVENT_CONNECT_REQUEST) {
                take(event.getConnIdPriv());
            } else {
                hear(event.getConnIdPriv(), type);
            }
        }
        long nowNs = System.nanoTime();
        for (int i = candidates.size() - 1; i >= 0; i--) {
            if (candidates.get(i).isLate(nowNs)) {
                UnprovedConnection late = candidates.get(i);
                drop(late, "RDMA (" + late.endpoint().path() + "): a connection was asked for and not established");
            }
        }
    }

    private void take(RdmaCmId id) {
        InetSocketAddress peer = null;
        try {
            peer = (InetSocketAddress) id.getDestination();
        } catch (IOException | RuntimeException e) {
            LOG.debug("a connection without an address of IPv4", e);
        }
        if (peer == null || !peer.getAddress().equals(source)) {
            refusals.say("foreign", "RDMA connection from " + peer + " refused: only " + source + " is accepted");
            CloseSequence.quietly("a foreign connection", id::destroyId);
        } else if (candidates.size() == MOST_CANDIDATES) {
            refusals.say("many", "RDMA connection from " + peer + " refused: " + MOST_CANDIDATES + " are there");
            CloseSequence.quietly("one connection too many", id::destroyId);
        } else {
            try {
                candidates.add(UnprovedConnection.accept(id, peer, System.nanoTime() + ESTABLISH_NS));
            } catch (IOException | RuntimeException e) {
                failed("a connection from " + peer + " could not be taken: " + e.getMessage());
            }
        }
    }

    private void hear(RdmaCmId id, EventType type) throws IOException {
        if (id == listenId && type == EventType.RDMA_CM_EVENT_DEVICE_REMOVAL) {
            throw RdmaException.refused(ConnectStep.ACCEPT, source.getHostAddress(), type);
        }
        UnprovedConnection about = null;
        for (UnprovedConnection candidate : candidates) {
            about = candidate.id() == id ? candidate : about;
        }
        if (about == null) {
            LOG.debug("an event of no connection here: {}", type);
            return;
        }
        switch (type) {
            case RDMA_CM_EVENT_ESTABLISHED -> about.established();
            case RDMA_CM_EVENT_CONNECT_ERROR,
                    RDMA_CM_EVENT_UNREACHABLE,
                    RDMA_CM_EVENT_REJECTED,
                    RDMA_CM_EVENT_DISCONNECTED,
                    RDMA_CM_EVENT_DEVICE_REMOVAL ->
                drop(about, "RDMA (" + about.endpoint().path() + "): a connection ended before its proof: " + type);
            default -> LOG.info("RDMA ({}): {}", about.endpoint().path(), type);
        }
    }

    private void drop(UnprovedConnection candidate, String why) {
        candidates.remove(candidate);
        failed(why);
        candidate.endpoint().disconnect();
        candidate.close();
    }

    private void failed(String why) {
        lastFailure = why;
        refusals.say("failed", why);
    }

    private void endListening() {
        over = true;
        CloseSequence.quietly("a listener", listenId::destroyId);
        for (UnprovedConnection candidate : candidates) {
            candidate.endpoint().disconnect();
            candidate.close();
        }
        candidates.clear();
    }

    /** Ends everything; after the proof nothing is left to end here. */
    @Override
    public void close() {
        if (!over) {
            endListening();
            channel.close();
        }
    }
}
