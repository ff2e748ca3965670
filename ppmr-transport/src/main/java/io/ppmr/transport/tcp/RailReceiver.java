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
 * Receives chunks from the rails of a session, whose connections arrive whenever the source needs them. The first frame
 * of each contains its rail and generation. A connection of an ended generation is closed. A rail is ended at the
 * source's request. When the last of its connections' threads ended, the source receives the number of chunks that
 * arrived on each. A connection that is lost in the middle of a chunk returns the chunk's buffer. The thread of a
 * connection that represents a rail over RDMA owns the receiver of the RDMA Writes ({@link RdmaRailReceiver}).
 *
 * <p>Each session has one. {@link #accept} for any thread, {@link #endRail} for the session's agent.
 */
public final class RailReceiver implements ChunkReceiver {
    private static final Logger LOG = LoggerFactory.getLogger(RailReceiver.class);
    /** Maximum number of connections of a session's rails, including ended ones until they are reported. */
    public static final int MAX_CONNECTIONS = 256;

    private static final int MAX_PER_RAIL = 64;
    private static final long FIRST_FRAME_NS = TimeUnit.SECONDS.toNanos(5);
    private static final int NONE = -1;

    private final List<OfferedRail> rails;
    private final Transport direct;
    private final BufferPool pool;
    private final Arrivals arrivals;
    private final ControlLink link;

    // Guarded by its monitor.
    private final List<RailMember> members = new ArrayList<>();
    private final List<EndRail> endRequests = new ArrayList<>();
    /** Per rail: the last generation whose end was requested. */
    private final int[] endedGenerations;

    private boolean closed;

    /**
     * Starts to receive.
     *
     * @param rails the rails that were offered to the source
     * @param direct the transport of rails over RDMA; null if there is no such rail
     * @param pool the pool into which chunks are written
     * @param link sends the reports of ended rails to the source
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

    /** Takes over a connected and authenticated channel; does not block. */
    public void accept(SocketChannel channel) {
        RailMember member = null;
        synchronized (this) {
            if (!closed && members.size() < MAX_CONNECTIONS) {
                member = new RailMember(channel);
                members.add(member);
            }
        }
        if (member == null) {
            LOG.warn("a connection of a rail is closed: the session ended, or has {} of them", MAX_CONNECTIONS);
            closeQuietly(channel);
        } else {
            member.start();
        }
    }

    @Override
    public void endRail(EndRail request) throws ProtocolException {
        requestEnd(request);
        reportEnded();
    }

    private synchronized void requestEnd(EndRail request) throws ProtocolException {
        int rail = request.rail();
        if (rail < 0 || rail >= endedGenerations.length || request.generation() <= endedGenerations[rail]) {
            throw new ProtocolException("the source ends generation " + request.generation() + " of rail " + rail + ", "
                    + (rail < 0 || rail >= endedGenerations.length ? "which does not exist" : "which ended before"));
        }
        endedGenerations[rail] = request.generation();
        endRequests.add(request);
        members.stream().filter(member -> member.belongsTo(request)).forEach(DataConnection::requestClose);
    }

    /** Reports the rails whose connections' threads all ended. Not while holding the monitor, since it may block. */
    private void reportEnded() {
        for (RailEnded report : removeEnded()) {
            try {
                link.send(report);
            } catch (IOException e) {
                LOG.debug("the end of rail {} cannot be reported to the source: {}", report.rail(), e.toString());
            }
        }
    }

    /** Removes and returns the requested rails whose connections' threads all ended. */
    private synchronized List<RailEnded> removeEnded() {
        List<RailEnded> reports = new ArrayList<>();
        endRequests.removeIf(request -> {
            List<RailMember> all =
                    members.stream().filter(member -> member.belongsTo(request)).toList();
            if (all.stream().anyMatch(member -> !member.hasEnded)) {
                return false;
            }
            members.removeAll(all);
            List<Long> arrived = new ArrayList<>();
            for (RailMember member : all) {
                while (member.generation == request.generation() && arrived.size() <= member.number) {
                    arrived.add(0L);
                }
                if (member.generation == request.generation()) {
                    arrived.set(member.number, member.arrived());
                }
            }
            reports.add(new RailEnded(request.rail(), request.generation(), arrived));
            return true;
        });
        return reports;
    }

    @Override
    public void close() {
        List<RailMember> remaining;
        synchronized (this) {
            closed = true;
            remaining = List.copyOf(members);
        }
        remaining.forEach(DataConnection::requestClose);
        // Done here and not by their threads, which may hang: the slots are reused after this.
        remaining.forEach(RailMember::endWriting);
        DataConnection.closeAll(remaining);
    }

    private static void closeQuietly(SocketChannel channel) {
        try {
            channel.close();
        } catch (IOException e) {
            LOG.debug("closing a connection of a rail: {}", e.toString());
        }
    }

    /** One connection. The receiver's monitor guards its rail, generation and number. Its thread owns the rest. */
    private final class RailMember extends ReceivingConnection {
        private int rail = NONE;
        private int generation;
        private int number;
        private boolean hasEnded;
        /** The receiver of a rail over RDMA. */
        private RdmaRailReceiver rdma;

        private RailMember(SocketChannel channel) {
            super(channel, "ppmr-rail-receive", arrivals, RELEASE_DELAY_NS);
        }

        private boolean belongsTo(EndRail request) {
            return rail == request.rail() && generation <= request.generation();
        }

        @Override
        void run() throws IOException {
            UnsafeBuffer first = readFirst(ValueFrame.LENGTH_BYTES, System.nanoTime() + FIRST_FRAME_NS);
            FrameType type = Frame.requireValid(first, 0);
            if (type != FrameType.RAIL
                    || Frame.lengthBytes(first, 0) != ValueFrame.LENGTH_BYTES
                    || Frame.attempt(first, 0) != link.attempt()) {
                throw new IOException("frame " + type + " of attempt " + Frame.attempt(first, 0)
                        + " instead of RAIL of attempt " + link.attempt());
            }
            ValueFrame frame = new ValueFrame().wrap(first, 0);
            assign(frame.file(), (int) (frame.value() >>> Integer.SIZE), (int) frame.value());
            if (rails.get(frame.file()).direct()) {
                receiveWrites();
            } else {
                super.run();
            }
        }

        /** Receives RDMA Writes of the source, until either end closes the rail. */
        private void receiveWrites() throws IOException {
            try (RdmaRailReceiver rail =
                    new RdmaRailReceiver(direct, pool, channel, link.attempt(), arrivals, this::connectionLost)) {
                synchronized (RailReceiver.this) {
                    rdma = rail;
                }
                rail.open(this::isClosing);
                watch(true, false);
                ByteBuffer buffer = ByteBuffer.allocate(1);
                while (true) {
                    await();
                    requireNoBytes(channel.read(buffer));
                }
            }
        }

        private void requireNoBytes(int read) throws IOException {
            if (read < 0) {
                throw new EOFException("closed by the source");
            }
            if (read > 0) {
                throw new ProtocolException("unexpected bytes on the TCP connection of a rail over RDMA");
            }
        }

        private void connectionLost(String reason) {
            LOG.info("the connection of rail {} was lost: {}", name(), reason);
            requestClose();
        }

        /** Any thread: after this the source cannot write on this rail. */
        private void endWriting() {
            RdmaRailReceiver rail;
            synchronized (RailReceiver.this) {
                rail = rdma;
            }
            if (rail != null) {
                rail.close();
            }
        }

        /** Returns the arrived chunks of a connection whose thread ended. */
        private long arrived() {
            return rdma == null ? arrivedChunks() : rdma.publishedChunks();
        }

        private String name() {
            return rails.get(rail).name();
        }

        private void assign(int ofRail, int ofGeneration, int withNumber) throws IOException {
            synchronized (RailReceiver.this) {
                if (closed
                        || ofRail < 0
                        || ofRail >= endedGenerations.length
                        || withNumber < 0
                        || withNumber >= MAX_PER_RAIL
                        || ofGeneration <= endedGenerations[ofRail]
                        || members.stream()
                                .anyMatch(other -> other.rail == ofRail
                                        && other.generation == ofGeneration
                                        && other.number == withNumber)) {
                    throw new IOException("connection " + withNumber + " of generation " + ofGeneration + " of rail "
                            + ofRail + ", which ended, is connected already, or does not exist");
                }
                rail = ofRail;
                generation = ofGeneration;
                number = withNumber;
            }
        }

        /**
         * The source detects missing chunks and sends them again. Only a protocol violation is a failure of the
         * session.
         */
        @Override
        void onFailure(Exception cause) {
            if (rail == NONE) {
                LOG.warn("a connection of a rail is refused: {}", cause.getMessage());
            } else if (cause instanceof IOException && !(cause instanceof ProtocolException)) {
                LOG.info("a connection of rail {} ended: {}", name(), cause.toString());
            } else {
                failSession("connection " + number + " of rail " + name() + " from the source failed: " + cause);
            }
        }

        @Override
        void onEnd() {
            returnBuffer();
            synchronized (RailReceiver.this) {
                if (!closed && rdma != null && !rdma.hasEnded()) {
                    // The rail is never reported as ended, because a chunk could still be published.
                    LOG.error("rail {} cannot be ended: a thread hangs that is publishing a chunk of it", name());
                    return;
                }
                hasEnded = true;
                if (arrived() == 0) {
                    // A connection without an arrived chunk needs no entry in the report.
                    members.remove(this);
                }
            }
            reportEnded();
        }
    }
}
