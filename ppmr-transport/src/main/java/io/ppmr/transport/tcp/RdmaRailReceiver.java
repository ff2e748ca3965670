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
 * A generation of a rail over RDMA at the target: has the source connect and prove itself, lets it write, and counts
 * the chunks that are shown. Only those have arrived: the bytes of another one may lie in its slot, and come again for
 * the same place. When {@link #close} has returned the source can write nothing more.
 *
 * <p>Opened by the thread of the rail's connection of TCP, closed by any.
 */
final class RdmaRailReceiver implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaRailReceiver.class);
    /** The source may try to connect until its own deadline. */
    private static final Duration ATTACH_DEADLINE = Duration.ofSeconds(30);

    private static final Duration PROOF_DEADLINE = Duration.ofSeconds(5);

    private final Transport direct;
    private final BufferPool pool;
    private final SocketChannel channel;
    private final RailMessages words;
    private final Counting counting;
    private TargetPath path;
    private boolean closed;

    /**
     * Makes it; nothing is connected.
     *
     * @param direct by which the source writes
     * @param pool into which it writes
     * @param channel the rail's connection of TCP, which does not block; its owner's
     * @param onLoss told when the connection of RDMA has failed; must not wait
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
        words = new RailMessages(channel, attempt);
        counting = new Counting(arrivals, onLoss);
    }

    /** Hears of the chunks that come by this generation, until it ends. */
    private static final class Counting implements Arrivals {
        private final Arrivals arrivals;
        private final Consumer<String> onLoss;
        private boolean isOver;
        private boolean isInside;
        private long shown;

        private Counting(Arrivals arrivals, Consumer<String> onLoss) {
            this.arrivals = arrivals;
            this.onLoss = onLoss;
        }

        @Override
        public ByteBuffer onChunkStart(ChunkFrame chunk) throws ProtocolException {
            synchronized (this) {
                if (isOver) {
                    throw new ProtocolException(chunk + " comes by a rail that has ended");
                }
                isInside = true;
            }
            try {
                return arrivals.onChunkStart(chunk);
            } catch (ProtocolException | RuntimeException e) {
                leave(false);
                throw e;
            }
        }

        @Override
        public boolean onChunkEnd(ChunkFrame chunk) {
            boolean isRight = arrivals.onChunkEnd(chunk);
            leave(isRight);
            return isRight;
        }

        private synchronized void leave(boolean isShown) {
            isInside = false;
            shown += isShown ? 1 : 0;
        }

        /** From now on no chunk is published; false if a thread is publishing one and hangs. */
        private synchronized boolean end() {
            isOver = true;
            return !isInside;
        }

        private synchronized long shown() {
            return shown;
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
        public void pulled(long pullId) {
            arrivals.pulled(pullId);
        }

        @Override
        public void pullFailed(long pullId, String reason) {
            arrivals.pullFailed(pullId, reason);
        }
    }

    /**
     * Joins the source. If that fails the source is told why.
     *
     * @param isUnwanted asked now and then; true ends it
     */
    void open(BooleanSupplier isUnwanted) throws IOException {
        try {
            join(isUnwanted);
        } catch (IOException | RuntimeException e) {
            String reason = "the rail cannot be joined by RDMA: " + e.getMessage();
            try {
                words.send(new TransferFailure(reason));
            } catch (IOException unheard) {
                e.addSuppressed(unheard);
            }
            throw e instanceof ProtocolException broken ? broken : new IOException(reason, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted while a rail was joined by RDMA", e);
        }
    }

    private void join(BooleanSupplier isUnwanted) throws IOException, InterruptedException {
        String why = direct.unusable();
        if (why != null) {
            throw new IOException("this node cannot use it: " + why);
        }
        InetSocketAddress here = (InetSocketAddress) channel.getLocalAddress();
        InetSocketAddress source = (InetSocketAddress) channel.getRemoteAddress();
        try (Transport.TransportListener waiting = direct.listen(pool, here.getAddress())) {
            words.send(new Offer(Optional.of(RdmaMode.WRITE), waiting.port(), ""));
            Transport.TransportPeer peer = waiting.accept(
                    source.getAddress(), ATTACH_DEADLINE, () -> isUnwanted.getAsBoolean() || words.hasArrived());
            boolean isOpen = false;
            try {
                Attached said = words.await(Attached.class, ATTACH_DEADLINE, isUnwanted);
                if (peer == null) {
                    throw new IOException("the source says that it has connected, and no connection has come");
                }
                peer.require(new MemoryProof(said.address(), said.key(), said.digest()), PROOF_DEADLINE);
                Writable where = peer.writable().orElseThrow(() -> new IOException("the source does not write by it"));
                TargetPath opened = peer.open(counting);
                isOpen = true;
                keep(opened);
                LOG.info("a rail is joined: {}", peer.path());
                words.send(where);
            } finally {
                if (peer != null && !isOpen) {
                    peer.close();
                }
            }
        }
    }

    /** Keeps what was opened, for {@link #close}, which may have been called before. */
    private void keep(TargetPath opened) throws IOException {
        synchronized (this) {
            path = opened;
            if (!closed) {
                return;
            }
        }
        opened.close();
        throw new IOException("the rail was ended meanwhile");
    }

    /** After {@link #close}: whether no thread is about to show a chunk, so that the count is final. */
    boolean hasEnded() {
        return counting.end();
    }

    /** Gives the number of chunks that were shown. */
    long shownChunks() {
        return counting.shown();
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
