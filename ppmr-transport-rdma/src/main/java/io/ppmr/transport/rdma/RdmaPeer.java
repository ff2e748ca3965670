package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.Transport;
import java.io.IOException;
import java.time.Duration;

/**
 * The target's end of a connection: its pool is registered for what comes in, nothing of it can be read remotely. Until
 * {@link #require} has found the source's connection among those that have come it has none, and they and their channel
 * are the listener's.
 */
final class RdmaPeer implements Transport.Peer {
    private final RdmaListener listener;
    private final BufferPool pool;
    private final Duration readDeadline;
    private Candidate proved;
    private CmChannel channel;
    private IbvMr region;
    private int depth;
    private boolean pullerMade;
    private boolean closed;

    RdmaPeer(RdmaListener listener, BufferPool pool, Duration readDeadline) {
        this.listener = listener;
        this.pool = pool;
        this.readDeadline = readDeadline;
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
        if (proved == null) {
            throw new IllegalStateException("no connection has been proved to be the source's");
        }
        return proved.endpoint();
    }

    IbvMr region() {
        return region;
    }

    Duration readDeadline() {
        return readDeadline;
    }

    @Override
    public void require(MemoryProof proof, Duration deadline) throws IOException {
        proved = listener.prove(proof, deadline);
        channel = listener.channel();
        region = endpoint()
                .register(
                        "the pool",
                        pool.baseAddress(),
                        Math.toIntExact(pool.geometry().poolBytes()),
                        IbvMr.IBV_ACCESS_LOCAL_WRITE);
        depth = Math.min(Device.readsUnderWay(endpoint().queuePair()), Endpoint.QUEUE_DEPTH - 1);
        if (depth < 1) {
            throw new IOException("RDMA (" + path() + "): the devices allow no read to be under way");
        }
    }

    @Override
    public ChunkPuller open(Arrivals arrivals) {
        ChunkPuller puller = new RdmaChunkPuller(this, arrivals);
        pullerMade = true;
        return puller;
    }

    @Override
    public String path() {
        return endpoint().path();
    }

    @Override
    public void close() {
        if (proved == null) {
            listener.close();
        } else if (!pullerMade && !closed) {
            closed = true;
            takeDown();
        }
    }

    /** Ends the connection; by the puller where there is one. */
    void takeDown() {
        endpoint().disconnect();
        proved.close();
        channel.close();
    }
}
