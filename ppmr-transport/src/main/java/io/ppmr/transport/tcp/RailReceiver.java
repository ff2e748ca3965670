package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage.EndRail;
import io.ppmr.protocol.data.DataMessage.OfferedRail;
import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkReceiver;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.Transport;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes chunks from the rails of a session, whose connections come whenever the source needs them. Each says first
 * which rail it belongs to, and which generation of that; one of a generation that has ended is closed, however late it
 * comes. A rail is ended at the source's word: when the last of its connections' threads has ended, and not before, the
 * source is told how many chunks have arrived on each. A connection that is lost in the middle of a chunk gives that
 * back. The thread of a connection that stands for a rail over RDMA owns what is written by that ({@link
 * RdmaRailReceiver}).
 *
 * <p>One a session; {@link #take} for any thread, {@link #endRail} for the session's agent.
 */
public final class RailReceiver implements ChunkReceiver {
    private static final Logger LOG = LoggerFactory.getLogger(RailReceiver.class);
    /** Maximum number of connections of a session's rails, and of those that are remembered. */
    public static final int MOST_CONNECTIONS = 256;

    private static final int MOST_A_RAIL = 64;
    private static final long FIRST_WORD_NS = TimeUnit.SECONDS.toNanos(5);
    private static final int NONE = -1;

    private final List<OfferedRail> rails;
    private final Transport direct;
    private final BufferPool pool;
    private final Arrivals arrivals;
    private final ControlLink link;

    // Guarded by its monitor.
    private final List<RailMember> lines = new ArrayList<>();
    private final List<EndRail> asked = new ArrayList<>();
    /** Of each rail the last generation that has ended, or is to. */
    private final int[] endedGenerations;

    private boolean closed;

    /**
     * Takes what comes from now on.
     *
     * @param rails those that the source was told of
     * @param direct by which the chunks of rails over RDMA are written; null where there is no such rail
     * @param pool into which they are written
     * @param link by which the source is told that a rail is ended
     */
    public RailReceiver(
            List<OfferedRail> rails, Transport direct, BufferPool pool, Arrivals arrivals, ControlLink link) {
        this.rails = List.copyOf(rails);
        this.direct = direct;
        this.pool = pool;
        this.arrivals = arrivals;
        this.link = link;
        endedGenerations = new int[rails.size()];
    }

    /** Takes over a connected and authenticated channel; does not wait. */
    public void take(SocketChannel channel) {
        RailMember line = null;
        synchronized (this) {
            if (!closed && lines.size() < MOST_CONNECTIONS) {
                line = new RailMember(channel);
                lines.add(line);
            }
        }
        if (line == null) {
            LOG.warn("a connection of a rail is closed: the session has ended, or has {} of them", MOST_CONNECTIONS);
            closeQuietly(channel);
        } else {
            line.start();
        }
    }

    @Override
    public void endRail(EndRail word) throws ProtocolException {
        begin(word);
        answer();
    }

    private synchronized void begin(EndRail word) throws ProtocolException {
        int rail = word.rail();
        if (rail < 0 || rail >= endedGenerations.length || word.generation() <= endedGenerations[rail]) {
            throw new ProtocolException("the source ends generation " + word.generation() + " of rail " + rail + ", "
                    + (rail < 0 || rail >= endedGenerations.length ? "which there is not" : "which has ended"));
        }
        endedGenerations[rail] = word.generation();
        asked.add(word);
        lines.stream().filter(line -> line.belongsTo(word)).forEach(DataConnection::beginToClose);
    }

    /** Answers for the rails of which no connection's thread is left. Not under the monitor, since it may wait. */
    private void answer() {
        for (RailEnded word : ended()) {
            try {
                link.send(word);
            } catch (IOException e) {
                LOG.debug("the source does not hear that rail {} is ended: {}", word.rail(), e.toString());
            }
        }
    }

    /** Takes the rails that were asked for and of which no connection's thread is left. */
    private synchronized List<RailEnded> ended() {
        List<RailEnded> words = new ArrayList<>();
        asked.removeIf(word -> {
            List<RailMember> all =
                    lines.stream().filter(line -> line.belongsTo(word)).toList();
            if (all.stream().anyMatch(line -> !line.hasEnded)) {
                return false;
            }
            lines.removeAll(all);
            List<Long> arrived = new ArrayList<>();
            for (RailMember line : all) {
                while (line.generation == word.generation() && arrived.size() <= line.number) {
                    arrived.add(0L);
                }
                if (line.generation == word.generation()) {
                    arrived.set(line.number, line.arrived());
                }
            }
            words.add(new RailEnded(word.rail(), word.generation(), arrived));
            return true;
        });
        return words;
    }

    @Override
    public void close() {
        List<RailMember> left;
        synchronized (this) {
            closed = true;
            left = List.copyOf(lines);
        }
        left.forEach(DataConnection::beginToClose);
        // Not left to their threads, which may hang: the slots are used again after this.
        left.forEach(RailMember::endWriting);
        DataConnection.closeAll(left);
    }

    private static void closeQuietly(SocketChannel channel) {
        try {
            channel.close();
        } catch (IOException e) {
            LOG.debug("closing a connection of a rail: {}", e.toString());
        }
    }

    /** One connection. What it belongs to is guarded by the receiver's monitor, the rest is its thread's. */
    private final class RailMember extends ReceivingConnection {
        private int rail = NONE;
        private int generation;
        private int number;
        private boolean hasEnded;
        /** Of a rail over RDMA. */
        private RdmaRailReceiver written;

        private RailMember(SocketChannel channel) {
            super(channel, "ppmr-rail-receive", arrivals, RELEASES_WAIT_NS);
        }

        private boolean belongsTo(EndRail word) {
            return rail == word.rail() && generation <= word.generation();
        }

        @Override
        void run() throws IOException {
            UnsafeBuffer said = first(ValueFrame.LENGTH_BYTES, System.nanoTime() + FIRST_WORD_NS);
            FrameType type = Frame.requireValid(said, 0);
            if (type != FrameType.RAIL
                    || Frame.lengthBytes(said, 0) != ValueFrame.LENGTH_BYTES
                    || Frame.attempt(said, 0) != link.attempt()) {
                throw new IOException("frame " + type + " of attempt " + Frame.attempt(said, 0)
                        + " where the word was due which rail of attempt " + link.attempt() + " it is");
            }
            ValueFrame frame = new ValueFrame().wrap(said, 0);
            join(frame.file(), (int) (frame.value() >>> Integer.SIZE), (int) frame.value());
            if (rails.get(frame.file()).direct()) {
                takeWritten();
            } else {
                super.run();
            }
        }

        /** Has the source write by RDMA, until either end ends that. */
        private void takeWritten() throws IOException {
            try (RdmaRailReceiver rail =
                    new RdmaRailReceiver(direct, pool, channel, link.attempt(), arrivals, this::connectionLost)) {
                synchronized (RailReceiver.this) {
                    written = rail;
                }
                rail.open(this::isClosing);
                watch(true, false);
                ByteBuffer nothing = ByteBuffer.allocate(1);
                while (true) {
                    await();
                    requireSilent(channel.read(nothing));
                }
            }
        }

        private void requireSilent(int read) throws IOException {
            if (read < 0) {
                throw new EOFException("closed by the source");
            }
            if (read > 0) {
                throw new ProtocolException("a byte by the connection of a rail over RDMA, which has nothing to say");
            }
        }

        private void connectionLost(String reason) {
            LOG.info("the connection of rail {} is lost: {}", name(), reason);
            beginToClose();
        }

        /** Any thread: from now on the source can write nothing by this rail. */
        private void endWriting() {
            RdmaRailReceiver rail;
            synchronized (RailReceiver.this) {
                rail = written;
            }
            if (rail != null) {
                rail.close();
            }
        }

        /** Of a connection whose thread has ended. */
        private long arrived() {
            return written == null ? arrivedChunks() : written.shownChunks();
        }

        private String name() {
            return rails.get(rail).name();
        }

        private void join(int ofRail, int ofGeneration, int withNumber) throws IOException {
            synchronized (RailReceiver.this) {
                if (closed
                        || ofRail < 0
                        || ofRail >= endedGenerations.length
                        || withNumber < 0
                        || withNumber >= MOST_A_RAIL
                        || ofGeneration <= endedGenerations[ofRail]
                        || lines.stream()
                                .anyMatch(other -> other.rail == ofRail
                                        && other.generation == ofGeneration
                                        && other.number == withNumber)) {
                    throw new IOException("connection " + withNumber + " of generation " + ofGeneration + " of rail "
                            + ofRail + ", which has ended, is there, or never was");
                }
                rail = ofRail;
                generation = ofGeneration;
                number = withNumber;
            }
        }

        /** The source knows what is missing, and sends it again; only what no sound source does is a failure. */
        @Override
        void failed(Exception cause) {
            if (rail == NONE) {
                LOG.warn("a connection of a rail is refused: {}", cause.getMessage());
            } else if (cause instanceof IOException && !(cause instanceof ProtocolException)) {
                LOG.info("a connection of rail {} has ended: {}", name(), cause.toString());
            } else {
                breaks("connection " + number + " of rail " + name() + " from the source failed: " + cause);
            }
        }

        @Override
        void ended() {
            giveBackChunk();
            synchronized (RailReceiver.this) {
                if (!closed && written != null && !written.hasEnded()) {
                    // The source is never told that it has: a chunk could be shown yet.
                    LOG.error("rail {} is not ended: a thread hangs that is about to show a chunk of it", name());
                    return;
                }
                hasEnded = true;
                if (arrived() == 0) {
                    // There is nothing to be told of it.
                    lines.remove(this);
                }
            }
            answer();
        }
    }
}
