package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.Transport;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;

/**
 * The target's end of a connection. Its pool is registered for local writes and cannot be read remotely. If the source
 * writes, the peer may write to the pool and to the ring of frames after its proof. Before {@link #require} the
 * connections and their channel belong to the listener.
 */
final class RdmaPeer implements Transport.TransportPeer {
    private final RdmaListener listener;
    private final BufferPool pool;
    private final RdmaMode mode;
    private final Duration readDeadline;
    private UnprovedConnection proved;
    private CmChannel channel;
    private IbvMr region;
    private FrameRing ring;
    private int depth;
    private boolean pathMade;
    private boolean closed;

    RdmaPeer(RdmaListener listener, BufferPool pool, RdmaMode mode, Duration readDeadline) {
        this.listener = listener;
        this.pool = pool;
        this.mode = mode;
        this.readDeadline = readDeadline;
    }

    /** The number of concurrent reads. */
    int depth() {
        return depth;
    }

    /** The ring of frames, if the source writes. */
    FrameRing ring() {
        return ring;
    }

    BufferPool pool() {
        return pool;
    }

    CmChannel channel() {
        return channel;
    }

    Endpoint endpoint() {
        if (proved == null) {
            throw new IllegalStateException("no connection was proved to be the source's");
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
        boolean writes = mode == RdmaMode.WRITE;
        region = endpoint()
                .register(
                        "the pool",
                        pool.baseAddress(),
                        Math.toIntExact(pool.geometry().poolBytes()),
                        IbvMr.IBV_ACCESS_LOCAL_WRITE | (writes ? IbvMr.IBV_ACCESS_REMOTE_WRITE : 0));
        if (writes) {
            ring = new FrameRing(endpoint(), pool.geometry().chunkCount());
            return;
        }
        depth = Math.min(Device.readsUnderWay(endpoint().queuePair()), Endpoint.QUEUE_DEPTH - 1);
        if (depth < 1) {
            throw new IOException("RDMA (" + path() + "): the devices allow no RDMA Read");
        }
    }

    @Override
    public Optional<Writable> writable() {
        return ring == null
                ? Optional.empty()
                : Optional.of(new Writable(
                        pool.baseAddress(),
                        Integer.toUnsignedLong(region.getRkey()),
                        ring.address(),
                        Integer.toUnsignedLong(ring.remoteKey()),
                        ring.entries()));
    }

    @Override
    public TargetPath open(Arrivals arrivals) {
        TargetPath path = ring == null ? new RdmaChunkPuller(this, arrivals) : new RdmaChunkReceiver(this, arrivals);
        pathMade = true;
        return path;
    }

    @Override
    public String path() {
        return endpoint().path();
    }

    @Override
    public void close() {
        if (proved == null) {
            listener.close();
        } else if (!pathMade && !closed) {
            closed = true;
            takeDown();
        }
    }

    /** Closes the connection; called by the puller or the receiver if there is one. */
    void takeDown() {
        endpoint().disconnect();
        proved.close();
        channel.close();
    }
}
