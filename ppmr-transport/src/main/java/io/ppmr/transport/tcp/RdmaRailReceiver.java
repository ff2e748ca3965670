package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.DataMessage.Attached;
import io.ppmr.protocol.data.DataMessage.Offer;
import io.ppmr.protocol.data.DataMessage.TransferFailure;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.Transport;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A generation of a rail over RDMA at the target. It negotiates the source's connection, verifies its proof, receives
 * its RDMA Writes, and counts the published chunks. Only published chunks count as arrived: the bytes of another one
 * may be in its slot, and may arrive there again. After {@link #close} the source cannot write any further byte.
 *
 * <p>Opened by the thread of the rail's TCP connection, closed by any.
 */
final class RdmaRailReceiver implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaRailReceiver.class);
    /** The source may try to connect until its own deadline. */
    private static final Duration ATTACH_DEADLINE = Duration.ofSeconds(30);

    private static final Duration PROOF_DEADLINE = Duration.ofSeconds(5);

    private final Transport direct;
    private final BufferPool pool;
    private final SocketChannel channel;
    private final RailMessages messages;
    private final CountingArrivals counting;
    private TargetPath path;
    private boolean closed;

    /**
     * Creates it without connecting.
     *
     * @param direct the transport of the source's writes
     * @param pool the pool to which the source writes
     * @param channel the rail's TCP connection, in non-blocking mode, which belongs to the caller
     * @param onLoss called when the RDMA connection failed; must not block
     */
    RdmaRailReceiver(
            Transport direct,
            BufferPool pool,
            SocketChannel channel,
            int attempt,
            Arrivals arrivals,
            Consumer<String> onLoss) {
        this.direct = direct;
        this.pool = pool;
        this.channel = channel;
        messages = new RailMessages(channel, attempt);
        counting = new CountingArrivals(arrivals, onLoss);
    }

    /** Counts the chunks of this generation, until it ends. */
    private static final class CountingArrivals implements Arrivals {
        private final Arrivals arrivals;
        private final Consumer<String> onLoss;
        private boolean hasEnded;
        private boolean isPublishing;
        private long published;

        private CountingArrivals(Arrivals arrivals, Consumer<String> onLoss) {
            this.arrivals = arrivals;
            this.onLoss = onLoss;
        }

        @Override
        public ByteBuffer onChunkStart(ChunkFrame chunk) throws ProtocolException {
            synchronized (this) {
                if (hasEnded) {
                    throw new ProtocolException(chunk + " arrived on a rail that ended");
                }
                isPublishing = true;
            }
            try {
                return arrivals.onChunkStart(chunk);
            } catch (ProtocolException | RuntimeException e) {
                endChunk(false);
                throw e;
            }
        }

        @Override
        public boolean onChunkEnd(ChunkFrame chunk) {
            boolean isCorrect = arrivals.onChunkEnd(chunk);
            endChunk(isCorrect);
            return isCorrect;
        }

        private synchronized void endChunk(boolean isPublished) {
            isPublishing = false;
            published += isPublished ? 1 : 0;
        }

        /** After this no chunk is published. Returns false if a thread hangs while it is publishing one. */
        private synchronized boolean end() {
            hasEnded = true;
            return !isPublishing;
        }

        private synchronized long published() {
            return published;
        }

        @Override
        public void onConnectionLost(String reason) {
            onLoss.accept(reason);
        }

        @Override
        public void onProtocolError(String reason) {
            arrivals.onProtocolError(reason);
        }

        @Override
        public void onPullCompleted(long pullId) {
            arrivals.onPullCompleted(pullId);
        }

        @Override
        public void onPullFailed(long pullId, String reason) {
            arrivals.onPullFailed(pullId, reason);
        }
    }

    /**
     * Connects to the source. Reports a failure to the source with its reason.
     *
     * @param isUnwanted queried repeatedly; true ends the attempt
     */
    void open(BooleanSupplier isUnwanted) throws IOException {
        try {
            connect(isUnwanted);
        } catch (IOException | RuntimeException e) {
            String reason = "the rail cannot be connected by RDMA: " + e.getMessage();
            try {
                messages.send(new TransferFailure(reason));
            } catch (IOException unsent) {
                e.addSuppressed(unsent);
            }
            throw e instanceof ProtocolException broken ? broken : new IOException(reason, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while a rail was being connected by RDMA", e);
        }
    }

    private void connect(BooleanSupplier isUnwanted) throws IOException, InterruptedException {
        String why = direct.unusable();
        if (why != null) {
            throw new IOException("this node cannot use RDMA: " + why);
        }
        InetSocketAddress here = (InetSocketAddress) channel.getLocalAddress();
        InetSocketAddress source = (InetSocketAddress) channel.getRemoteAddress();
        try (Transport.TransportListener listener = direct.listen(pool, here.getAddress())) {
            messages.send(new Offer(Optional.of(RdmaMode.WRITE), listener.port(), ""));
            Transport.TransportPeer peer = listener.accept(
                    source.getAddress(), ATTACH_DEADLINE, () -> isUnwanted.getAsBoolean() || messages.hasArrived());
            boolean isOpen = false;
            try {
                Attached attached = messages.await(Attached.class, ATTACH_DEADLINE, isUnwanted);
                if (peer == null) {
                    throw new IOException("the source reported a connection, but none arrived");
                }
                peer.require(new MemoryProof(attached.address(), attached.key(), attached.digest()), PROOF_DEADLINE);
                Writable memory =
                        peer.writable().orElseThrow(() -> new IOException("the transport does not support RDMA Write"));
                TargetPath opened = peer.open(counting);
                isOpen = true;
                store(opened);
                LOG.info("a rail is connected: {}", peer.path());
                messages.send(memory);
            } finally {
                if (peer != null && !isOpen) {
                    peer.close();
                }
            }
        }
    }

    /** Stores the opened path for {@link #close}, which may have been called before. */
    private void store(TargetPath opened) throws IOException {
        synchronized (this) {
            path = opened;
            if (!closed) {
                return;
            }
        }
        opened.close();
        throw new IOException("the rail was ended in the meantime");
    }

    /** After {@link #close}: returns whether no thread is publishing a chunk, so that the count is final. */
    boolean hasEnded() {
        return counting.end();
    }

    /** Returns the number of published chunks. */
    long publishedChunks() {
        return counting.published();
    }

    @Override
    public void close() {
        TargetPath opened;
        synchronized (this) {
            closed = true;
            opened = path;
        }
        if (opened != null) {
            opened.close();
        }
    }
}
