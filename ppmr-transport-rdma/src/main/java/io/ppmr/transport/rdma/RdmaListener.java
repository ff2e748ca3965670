package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import com.ibm.disni.verbs.RdmaCmId;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.linux.RareLog;
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
 * Listens for one source on a separate port. The connection manager does not prove the peer's address. So every
 * connection that claims the source's address is accepted, up to a limit, and the proof identifies the source's own. A
 * failure of another connection ends only that connection.
 *
 * <p>The listening id and all connections share one event channel, since DiSNI cannot move an id to another
 * (rdma_migrate_id(3)). They belong to this object until the proof succeeded. Then the listening id and the other
 * connections are destroyed, and the channel belongs to the proved connection. So every id is destroyed before its
 * channel.
 */
final class RdmaListener implements Transport.TransportListener {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaListener.class);
    /** Maximum number of concurrent connections that claim the source's address. */
    private static final int MAX_CANDIDATES = 8;

    private static final int SLICE_MS = 100;
    /** A connection that is not established by then is closed. */
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
    private boolean hasEnded;

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
            id.listen(MAX_CANDIDATES);
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
    public Transport.TransportPeer accept(InetAddress from, Duration deadline, BooleanSupplier reported)
            throws IOException {
        source = from;
        long startNs = System.nanoTime();
        while (!reported.getAsBoolean()) {
            long remainingMs = deadline.toMillis() - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
            if (remainingMs <= 0) {
                throw RdmaException.timeout(
                        ConnectStep.ACCEPT, from.getHostAddress(), deadline.toMillis(), lastFailure);
            }
            processEvents((int) Math.min(SLICE_MS, remainingMs));
        }
        return candidates.isEmpty() ? null : new RdmaPeer(this, pool, mode, readDeadline);
    }

    /**
     * Identifies the source's connection, and closes the listener and all others.
     *
     * @throws IOException if none of them belongs to the source, or the proof does not arrive within the deadline
     */
    UnprovedConnection prove(MemoryProof proof, Duration deadline) throws IOException {
        long deadlineNs = System.nanoTime() + deadline.toNanos();
        while (!candidates.isEmpty()) {
            if (System.nanoTime() - deadlineNs > 0) {
                throw new IOException("RDMA (" + candidates.get(0).endpoint().path()
                        + "): the proof did not arrive within " + deadline + lastFailureText());
            }
            for (UnprovedConnection candidate : List.copyOf(candidates)) {
                if (isProved(candidate, proof)) {
                    candidates.remove(candidate);
                    endListening();
                    return candidate;
                }
            }
            processEvents(0);
            LockSupport.parkNanos(PROOF_POLL_NS);
        }
        throw new IOException("RDMA: no connection belongs to the source of this session" + lastFailureText());
    }

    /** Returns the channel, on which only the id of the proved connection remains. */
    CmChannel channel() {
        return channel;
    }

    private String lastFailureText() {
        return lastFailure == null ? "" : " (" + lastFailure + ")";
    }

    private boolean isProved(UnprovedConnection candidate, MemoryProof proof) {
        String path = candidate.endpoint().path();
        try {
            int status = candidate.proofStatus(proof);
            if (status == UnprovedConnection.PENDING) {
                return false;
            }
            if (status != WorkFailure.SUCCESS) {
                discard(candidate, WorkFailure.text("RDMA Read of the proof", status, path));
            } else if (candidate.matches(proof)) {
                return true;
            } else {
                discard(
                        candidate,
                        "RDMA (" + path + "): the other end is not the source of this session: its memory does not"
                                + " contain the bytes that the control connection announced");
            }
        } catch (IOException | RuntimeException e) {
            discard(candidate, "RDMA (" + path + "): the proof cannot be read: " + e.getMessage());
        }
        return false;
    }

    // ---- the connection manager's events ----------------------------------------------------------------------

    private void processEvents(int timeoutMs) throws IOException {
        RdmaCmEvent event = channel.poll(timeoutMs);
        if (event != null) {
            EventType type = CmChannel.type(event);
            if (type == EventType.RDMA_CM_EVENT_CONNECT_REQUEST) {
                acceptRequest(event.getConnIdPriv());
            } else {
                handleEvent(event.getConnIdPriv(), type);
            }
        }
        long nowNs = System.nanoTime();
        for (int i = candidates.size() - 1; i >= 0; i--) {
            if (candidates.get(i).isLate(nowNs)) {
                UnprovedConnection late = candidates.get(i);
                discard(
                        late,
                        "RDMA (" + late.endpoint().path() + "): a requested connection was not established in time");
            }
        }
    }

    private void acceptRequest(RdmaCmId id) {
        InetSocketAddress peer = null;
        try {
            peer = (InetSocketAddress) id.getDestination();
        } catch (IOException | RuntimeException e) {
            LOG.debug("a connection without an IPv4 address", e);
        }
        if (peer == null || !peer.getAddress().equals(source)) {
            refusals.write("foreign", "RDMA connection from " + peer + " refused: only " + source + " is accepted");
            CloseSequence.quietly("a foreign connection", id::destroyId);
        } else if (candidates.size() == MAX_CANDIDATES) {
            refusals.write("many", "RDMA connection from " + peer + " refused: " + MAX_CANDIDATES + " are open");
            CloseSequence.quietly("one connection too many", id::destroyId);
        } else {
            try {
                candidates.add(UnprovedConnection.accept(id, peer, System.nanoTime() + ESTABLISH_NS));
            } catch (IOException | RuntimeException e) {
                recordFailure("a connection from " + peer + " could not be accepted: " + e.getMessage());
            }
        }
    }

    private void handleEvent(RdmaCmId id, EventType type) throws IOException {
        if (id == listenId && type == EventType.RDMA_CM_EVENT_DEVICE_REMOVAL) {
            throw RdmaException.refused(ConnectStep.ACCEPT, source.getHostAddress(), type);
        }
        UnprovedConnection found = null;
        for (UnprovedConnection candidate : candidates) {
            found = candidate.id() == id ? candidate : found;
        }
        if (found == null) {
            LOG.debug("an event of an unknown connection: {}", type);
            return;
        }
        switch (type) {
            case RDMA_CM_EVENT_ESTABLISHED -> found.established();
            case RDMA_CM_EVENT_CONNECT_ERROR,
                    RDMA_CM_EVENT_UNREACHABLE,
                    RDMA_CM_EVENT_REJECTED,
                    RDMA_CM_EVENT_DISCONNECTED,
                    RDMA_CM_EVENT_DEVICE_REMOVAL ->
                discard(found, "RDMA (" + found.endpoint().path() + "): a connection ended before its proof: " + type);
            default -> LOG.info("RDMA ({}): {}", found.endpoint().path(), type);
        }
    }

    private void discard(UnprovedConnection candidate, String why) {
        candidates.remove(candidate);
        recordFailure(why);
        candidate.endpoint().disconnect();
        candidate.close();
    }

    private void recordFailure(String why) {
        lastFailure = why;
        refusals.write("failed", why);
    }

    private void endListening() {
        hasEnded = true;
        CloseSequence.quietly("a listener", listenId::destroyId);
        for (UnprovedConnection candidate : candidates) {
            candidate.endpoint().disconnect();
            candidate.close();
        }
        candidates.clear();
    }

    /** Closes everything; has no effect after the proof. */
    @Override
    public void close() {
        if (!hasEnded) {
            endListening();
            channel.close();
        }
    }
}
