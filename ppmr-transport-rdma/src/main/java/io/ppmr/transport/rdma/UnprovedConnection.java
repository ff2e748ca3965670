package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import com.ibm.disni.verbs.IbvWC;
import com.ibm.disni.verbs.RdmaCmId;
import com.ibm.disni.verbs.RdmaConnParam;
import com.ibm.disni.verbs.SVCPollCq;
import io.ppmr.transport.MemoryProof;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import org.agrona.BufferUtil;

/**
 * A connection to the target that claims the source's address, until the read of its peer's memory proves this. Until
 * then only memory for those bytes is registered for it. Used by one thread at a time.
 */
final class UnprovedConnection implements AutoCloseable {
    /** Result of {@link #proofStatus} while there is none. */
    static final int PENDING = -1;

    private static final int PROOF_ALIGNMENT = 64;

    private final RdmaCmId id;
    private final Endpoint endpoint;
    private final long dueNs;
    /** Kept while it is registered, because the device writes to it. */
    private final ByteBuffer proofBytes = BufferUtil.allocateDirectAligned(MemoryProof.SECRET_BYTES, PROOF_ALIGNMENT);

    private final IbvWC[] completion = {new IbvWC()};
    private ReadRequest read;
    private SVCPollCq poll;
    private boolean established;

    private UnprovedConnection(RdmaCmId id, Endpoint endpoint, long dueNs) {
        this.id = id;
        this.endpoint = endpoint;
        this.dueNs = dueNs;
    }

    /**
     * Accepts a request. A failure closes everything, including the id.
     *
     * @param dueNs the time by which it must be established
     */
    static UnprovedConnection accept(RdmaCmId id, InetSocketAddress from, long dueNs) throws IOException {
        Endpoint endpoint = null;
        UnprovedConnection accepted = null;
        try {
            endpoint = Endpoint.open(id, from);
            UnprovedConnection candidate = new UnprovedConnection(id, endpoint, dueNs);
            RdmaConnParam parameters = new RdmaConnParam();
            parameters.setRetry_count((byte) RdmaTransport.RETRIES);
            parameters.setRnr_retry_count((byte) RdmaTransport.RETRIES);
            id.accept(parameters);
            accepted = candidate;
            return accepted;
        } finally {
            if (accepted == null && endpoint != null) {
                endpoint.close();
            } else if (accepted == null) {
                CloseSequence.quietly("a connection's id", id::destroyId);
            }
        }
    }

    RdmaCmId id() {
        return id;
    }

    Endpoint endpoint() {
        return endpoint;
    }

    void established() {
        established = true;
    }

    boolean isLate(long nowNs) {
        return !established && nowNs - dueNs > 0;
    }

    /**
     * Posts the read of the bytes once the connection is established. Returns the status of the read's completion, or
     * {@link #PENDING}.
     */
    int proofStatus(MemoryProof proof) throws IOException {
        if (!established) {
            return PENDING;
        }
        if (read == null) {
            IbvMr region = endpoint.register(
                    "the proof",
                    BufferUtil.address(proofBytes),
                    MemoryProof.SECRET_BYTES,
                    IbvMr.IBV_ACCESS_LOCAL_WRITE);
            poll = endpoint.completions().poll(completion, 1);
            read = new ReadRequest(endpoint.queuePair());
            read.post(
                    WorkId.of(WorkId.PROOF, 0, 0),
                    proof.address(),
                    (int) proof.key(),
                    BufferUtil.address(proofBytes),
                    MemoryProof.SECRET_BYTES,
                    region.getLkey());
        }
        return poll.execute().getPolls() == 0 ? PENDING : completion[0].getStatus();
    }

    /** After a successful read: returns whether the bytes match the source's digest. */
    boolean matches(MemoryProof proof) {
        byte[] bytes = new byte[MemoryProof.SECRET_BYTES];
        proofBytes.duplicate().get(bytes);
        return proof.matches(bytes);
    }

    @Override
    public void close() {
        if (read != null) {
            CloseSequence.quietly("a request", read::free);
        }
        if (poll != null) {
            CloseSequence.quietly("a request to poll", poll::free);
        }
        endpoint.close();
    }
}
