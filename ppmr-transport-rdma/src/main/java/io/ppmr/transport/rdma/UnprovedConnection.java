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
 * A connection to the target that says it comes from the source's address. Whether it does shows when its peer's memory
 * is read; until then nothing of this process but room for those bytes is registered for it. Used by one thread at a
 * time.
 */
final class UnprovedConnection implements AutoCloseable {
    /** Of {@link #answer} while there is none. */
    static final int NO_ANSWER = -1;

    private static final int PROOF_ALIGNMENT = 64;

    private final RdmaCmId id;
    private final Endpoint endpoint;
    private final long dueNs;
    /** Kept while it is registered: the device writes it. */
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
     * Accepts a request; a failure takes all of it down, the id as well.
     *
     * @param dueNs when it must have been established
     */
    static UnprovedConnection accept(RdmaCmId id, InetSocketAddress from, long dueNs) throws IOException {
        Endpoint endpoint = null;
        UnprovedConnection made = null;
        try {
            endpoint = Endpoint.open(id, from);
            UnprovedConnection candidate = new UnprovedConnection(id, endpoint, dueNs);
            RdmaConnParam parameters = new RdmaConnParam();
            parameters.setRetry_count((byte) RdmaTransport.RETRIES);
            parameters.setRnr_retry_count((byte) RdmaTransport.RETRIES);
            id.accept(parameters);
            made = candidate;
            return made;
        } finally {
            if (made == null && endpoint != null) {
                endpoint.close();
            } else if (made == null) {
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
     * Asks for the bytes if that is possible and was not done; the status of the read's completion, or {@link
     * #NO_ANSWER}.
     */
    int answer(MemoryProof proof) throws IOException {
        if (!established) {
            return NO_ANSWER;
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
        return poll.execute().getPolls() == 0 ? NO_ANSWER : completion[0].getStatus();
    }

    /** After a good answer: whether the bytes are those that the source has promised. */
    boolean holds(MemoryProof proof) {
        byte[] bytes = new byte[MemoryProof.SECRET_BYTES];
        proofBytes.duplicate().get(bytes);
        return proof.holds(bytes);
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
