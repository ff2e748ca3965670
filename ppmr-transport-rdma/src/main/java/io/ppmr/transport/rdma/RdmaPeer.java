package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import com.ibm.disni.verbs.IbvWC;
import com.ibm.disni.verbs.SVCPollCq;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.Transport;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.agrona.BufferUtil;

/** The target's end of a connection: its pool is registered for what comes in, nothing of it can be read remotely. */
final class RdmaPeer implements Transport.Peer {
    private static final long PROOF_POLL_NS = TimeUnit.MICROSECONDS.toNanos(200);
    private static final int PROOF_ALIGNMENT = 64;

    private final BufferPool pool;
    private final CmChannel channel;
    private final Endpoint endpoint;
    private final Duration readDeadline;
    private final IbvMr region;
    /** Kept while it is registered: the device writes it. */
    private final ByteBuffer proofBytes = BufferUtil.allocateDirectAligned(MemoryProof.SECRET_BYTES, PROOF_ALIGNMENT);

    private final IbvMr proofRegion;
    private int depth;
    private boolean closed;

    RdmaPeer(BufferPool pool, CmChannel channel, Endpoint endpoint, Duration readDeadline) throws IOException {
        this.pool = pool;
        this.channel = channel;
        this.endpoint = endpoint;
        this.readDeadline = readDeadline;
        region = endpoint.register(
                "the pool",
                pool.baseAddress(),
                Math.toIntExact(pool.geometry().poolBytes()),
                IbvMr.IBV_ACCESS_LOCAL_WRITE);
        proofRegion = endpoint.register(
                "the proof", BufferUtil.address(proofBytes), MemoryProof.SECRET_BYTES, IbvMr.IBV_ACCESS_LOCAL_WRITE);
    }

    /** The connection stands; what both devices can have under way is known now. */
    void established() throws IOException {
        depth = Math.min(DeviceQueries.readsUnderWay(endpoint.queuePair()), Endpoint.QUEUE_DEPTH - 1);
        if (depth < 1) {
            throw new IOException("RDMA (" + endpoint.path() + "): the devices allow no read to be under way");
        }
    }

    int depth() {
        return depth;
    }

    BufferPool pool() {
        return pool;
    }

    CmChannel channel() {
        return channel;
    }

    Endpoint endpoint() {
        return endpoint;
    }

    IbvMr region() {
        return region;
    }

    Duration readDeadline() {
        return readDeadline;
    }

    @Override
    public void require(MemoryProof proof, Duration deadline) throws IOException {
        ReadRequest read = new ReadRequest(endpoint.queuePair());
        read.post(
                WorkId.of(WorkId.PROOF, 0, 0),
                proof.address(),
                (int) proof.key(),
                BufferUtil.address(proofBytes),
                MemoryProof.SECRET_BYTES,
                proofRegion.getLkey());
        int status = awaitProof(deadline);
        read.free();
        if (status != ReadFailure.SUCCESS) {
            throw new IOException(ReadFailure.text(status, MemoryProof.SECRET_BYTES, endpoint.path()));
        }
        byte[] bytes = new byte[MemoryProof.SECRET_BYTES];
        proofBytes.duplicate().get(bytes);
        if (!proof.holds(bytes)) {
            throw new IOException("RDMA (" + endpoint.path() + "): the other end is not the source of this session: "
                    + "its memory does not hold what the control connection promised");
        }
    }

    private int awaitProof(Duration deadline) throws IOException {
        IbvWC[] completion = {new IbvWC()};
        SVCPollCq poll = endpoint.completions().poll(completion, 1);
        try {
            long deadlineNs = System.nanoTime() + deadline.toNanos();
            while (poll.execute().getPolls() == 0) {
                if (System.nanoTime() - deadlineNs > 0) {
                    throw new IOException("RDMA (" + endpoint.path() + "): the proof has not come within " + deadline);
                }
                LockSupport.parkNanos(PROOF_POLL_NS);
            }
            return completion[0].getStatus();
        } finally {
            poll.free();
        }
    }

    @Override
    public ChunkPuller puller(PullListener listener) {
        return new RdmaChunkPuller(this, listener);
    }

    @Override
    public String path() {
        return endpoint.path();
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            endpoint.disconnect();
            endpoint.close();
            channel.close();
        }
    }
}
