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
 * The target's end of a connection: its pool is registered for what comes in, nothing of it can be read remotely, and
 * it can be written remotely, with the ring of frames, only where the source writes and once it has proved itself.
 * Until {@link #require} has found the source's connection among those that have come it has none, and they and their
 * channel are the listener's.
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

    /** Reads that may be under way. */
    int depth() {
        return depth;
    }

    /** The ring of frames, where the source writes. */
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
            throw new IOException("RDMA (" + path() + "): the devices allow no read to be under way");
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

    /** Ends the connection; by the puller or the receiver where there is one. */
    void takeDown() {
        endpoint().disconnect();
        proved.close();
        channel.close();
    }
}
