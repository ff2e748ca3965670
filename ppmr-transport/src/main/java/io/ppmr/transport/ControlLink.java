package io.ppmr.transport;

import io.ppmr.linux.BootClock;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.transport.auth.PeerConnection;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import org.agrona.BufferUtil;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.ControlledMessageHandler;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.ManyToOneRingBuffer;
import org.agrona.concurrent.ringbuffer.RingBufferDescriptor;

/**
 * The control link of a session: sends and receives frames without blocking.
 *
 * <p>One agent owns it and calls {@link #doWork}, {@link #idle} and the methods that write in place. All other threads
 * pass their frames by {@link #claim} or {@link #send}. A ring buffer keeps these frames in the order of the claims. If
 * the peer does not accept them the ring fills and the senders block, so a slow peer costs a fixed amount of memory.
 *
 * <p>A link that receives nothing for the silence limit is lost. An idle side sends heartbeats, so that this does not
 * happen while both sides work. A heartbeat contains the number of received bytes, and is also sent after many received
 * bytes.
 *
 * <p>If the session has rails the link survives the loss of its connection. The source opens a new one ({@link
 * #setReconnector}, {@link #offer}), on which each side continues after the peer's received bytes ({@link
 * ResumableConnection}). The users of the link only notice a delay. The silence limit counts from the last received
 * frame, independent of new connections.
 */
public final class ControlLink implements AutoCloseable {
    /** Value of {@code attempt} at the accepting side: the first received frame sets it, and nothing is sent before. */
    public static final int OF_FIRST_FRAME = 0;

    private static final int RING_BYTES = Frame.MAX_FRAME_BYTES * 8;
    private static final int BUFFER_BYTES = Frame.MAX_FRAME_BYTES * 4;
    /** One frame, and acknowledgements. Thousands of links are opened for one question each. */
    private static final int QUESTION_BUFFER_BYTES = Frame.MAX_FRAME_BYTES + Frame.MAX_FRAME_BYTES / 4;

    private static final int MESSAGE_TYPE_ID = 1;

    private static final long HEARTBEAT_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long SEND_PAUSE_US = 50;
    private static final long SEND_PAUSE_NS = TimeUnit.MICROSECONDS.toNanos(SEND_PAUSE_US);

    private final Outbox out;
    private final ResumableConnection connection;
    private final ProtocolVersion version;
    private volatile int attempt;
    private final long silenceLimitNs;
    /** Null if only the agent sends. */
    private final ManyToOneRingBuffer ring;

    /** An acknowledgement is sent after this many received bytes, so that the peer can free them. */
    private final int acknowledgeBytes;

    private final ControlledMessageHandler ringReader = this::copyFromRing;
    private final ByteBuffer inBytes;
    private final UnsafeBuffer in;
    private final AtomicBoolean sleeping = new AtomicBoolean();
    private final ArrayDeque<DirectBuffer> kept = new ArrayDeque<>();
    /** Held by the thread that sends a message of several frames. The agent never acquires it. */
    private final Object longMessages = new Object();

    private final ValueFrame value = new ValueFrame();
    /** The position in the received bytes up to which frames were dispatched. */
    private int dispatched;

    private boolean outIsFull;
    private long lastSentNs = System.nanoTime();
    private final LongSupplier clockNs;
    private long lastReceivedNs;
    /** The number of received bytes in the last acknowledgement. */
    private long acknowledgedBytes;

    private volatile Thread agentThread;
    private volatile boolean closed;

    /** Opens a new connection for the link, at the source, when the current one fails. Safe for any thread. */
    public interface Reconnector extends AutoCloseable {
        /**
         * Starts to connect, unless an attempt is running; does not block. The new connection goes to {@link
         * ControlLink#offer}. If none is possible, {@link ControlLink#failResumption} is called.
         */
        void begin();

        /**
         * The link resumed on another connection. Called by the link's agent.
         *
         * @param to the remote address of the connection
         */
        void resumedOn(SocketAddress to);

        /** Stops connecting; does not block. */
        @Override
        void close();
    }

    /**
     * Takes over a connected and authenticated channel.
     *
     * @param version the version that both ends agreed on; a message of a later one cannot be sent
     * @param attempt the attempt of its frames, or {@link #OF_FIRST_FRAME}; frames of other attempts are refused
     * @param silenceLimitNs the time without a received byte after which the link is lost
     */
    public ControlLink(PeerConnection channel, ProtocolVersion version, int attempt, long silenceLimitNs)
            throws IOException {
        this(channel, version, attempt, silenceLimitNs, BootClock::nowNs);
    }

    /** Takes over a connected channel without encryption. */
    public ControlLink(SocketChannel channel, ProtocolVersion version, int attempt, long silenceLimitNs)
            throws IOException {
        this(new PeerConnection(channel), version, attempt, silenceLimitNs);
    }

    /** @param clockNs the clock for the silence limit, which includes the time of a suspended machine */
    ControlLink(PeerConnection channel, ProtocolVersion version, int attempt, long silenceLimitNs, LongSupplier clockNs)
            throws IOException {
        this(
                channel,
                version,
                attempt,
                silenceLimitNs,
                clockNs,
                BUFFER_BYTES,
                new ManyToOneRingBuffer(new UnsafeBuffer(
                        BufferUtil.allocateDirectAligned(RING_BYTES + RingBufferDescriptor.TRAILER_LENGTH, 64))));
    }

    private ControlLink(
            PeerConnection channel,
            ProtocolVersion version,
            int attempt,
            long silenceLimitNs,
            LongSupplier clockNs,
            int bufferBytes,
            ManyToOneRingBuffer ring)
            throws IOException {
        this.out = new Outbox(bufferBytes);
        this.inBytes = ByteBuffer.allocateDirect(bufferBytes);
        this.in = new UnsafeBuffer(inBytes);
        this.acknowledgeBytes = bufferBytes / 4;
        this.ring = ring;
        this.clockNs = clockNs;
        this.version = version;
        this.lastReceivedNs = clockNs.getAsLong();
        this.attempt = attempt;
        this.silenceLimitNs = silenceLimitNs;
        connection = new ResumableConnection(channel, out);
    }

    /**
     * Takes over a channel for questions and answers, with a sixth of the usual memory. Only the agent sends, by
     * {@link #sendFromAgent}, and only its thread uses the link.
     */
    public static ControlLink forQuestions(
            PeerConnection channel, ProtocolVersion version, int attempt, long silenceLimitNs) throws IOException {
        return new ControlLink(
                channel, version, attempt, silenceLimitNs, BootClock::nowNs, QUESTION_BUFFER_BYTES, null);
    }

    /** The version of the protocol that both ends agreed on. */
    public ProtocolVersion version() {
        return version;
    }

    public int attempt() {
        return attempt;
    }

    /** The remote address of the first connection. */
    public String peer() {
        return connection.peer();
    }

    // ---- any thread -------------------------------------------------------------------------------------------

    /**
     * Claims space for a frame of exactly {@code lengthBytes}, and blocks while the ring is full.
     *
     * @return an index for {@link #claimed} and {@link #commit}
     * @throws IOException if there is no space before the silence limit, or the link is closed
     */
    public int claim(int lengthBytes) throws IOException {
        requireAlive();
        int index = ring.tryClaim(MESSAGE_TYPE_ID, lengthBytes);
        if (index > 0) {
            return index;
        }
        long deadlineNs = System.nanoTime() + silenceLimitNs;
        wake();
        while (index <= 0) {
            awaitSpace(deadlineNs);
            index = ring.tryClaim(MESSAGE_TYPE_ID, lengthBytes);
        }
        return index;
    }

    /**
     * Waits {@value #SEND_PAUSE_US} microseconds for space in the ring, on any thread including the agent's. Throws at
     * the deadline.
     */
    public void awaitSpace(long deadlineNs) throws IOException {
        requireAlive();
        if (System.nanoTime() - deadlineNs > 0) {
            throw new IOException("control connection to " + peer() + " took no frame for "
                    + TimeUnit.NANOSECONDS.toMillis(silenceLimitNs) + " ms: the peer hangs or the network is down");
        }
        if (Thread.currentThread() == agentThread) {
            pump();
        } else {
            LockSupport.parkNanos(SEND_PAUSE_NS);
        }
    }

    /** Returns how long a sender may wait for space. */
    public long silenceLimitNs() {
        return silenceLimitNs;
    }

    /**
     * Like {@link #claim} but without blocking: returns 0 or less if there is no space. For use while holding a lock.
     */
    public int tryClaim(int lengthBytes) throws IOException {
        requireAlive();
        return ring.tryClaim(MESSAGE_TYPE_ID, lengthBytes);
    }

    /** Marks the link as closed when its agent ends, so that later calls throw. */
    public void markClosed() {
        closed = true;
        connection.end();
    }

    /** At the source: sets the way to open new connections when the current one fails. */
    public void setReconnector(Reconnector reconnector) {
        connection.setReconnector(reconnector);
    }

    /** At the target: sets whether the source may replace a failed connection. */
    public void allowResumption(boolean allowed) {
        connection.allowResumption(allowed);
    }

    /** Takes over a connection on which source and target proved that they belong to this session. Does not block. */
    public void offer(PeerConnection connected) {
        connection.offer(connected);
    }

    /** Reports that no new connection is possible: without a connection the link is lost. */
    public void failResumption(String reason) {
        connection.failResumption(reason);
    }

    private void requireAlive() throws IOException {
        if (closed) {
            throw new IOException("control connection to " + peer() + " is closed");
        }
    }

    /** The buffer that contains a claimed index. */
    public MutableDirectBuffer claimed() {
        return ring.buffer();
    }

    /** Passes a claimed frame to the agent. */
    public void commit(int index) {
        ring.commit(index);
        wake();
    }

    /** Sends a frame that contains one number. */
    public void sendValue(FrameType type, int file, long value) throws IOException {
        int index = claim(ValueFrame.LENGTH_BYTES);
        ValueFrame.encode(ring.buffer(), index, type, attempt, file, value);
        commit(index);
    }

    /**
     * Sends a message. The agent's own thread must not send one of several frames. The frames of two such messages are
     * never mixed.
     */
    public void send(Message message) throws IOException {
        List<DirectBuffer> frames = frames(message);
        if (frames.size() == 1) {
            send(frames.get(0));
        } else if (Thread.currentThread() == agentThread) {
            throw new IllegalArgumentException(message.getClass().getSimpleName() + " of " + frames.size()
                    + " frames is sent by the agent, which must not wait");
        } else {
            synchronized (longMessages) {
                for (DirectBuffer frame : frames) {
                    send(frame);
                }
            }
        }
    }

    /**
     * Sends a message if there is space for it, and never blocks.
     *
     * @return false if it was not sent, because there is no space, or it has several frames
     */
    public boolean offer(Message message) throws IOException {
        requireAlive();
        List<DirectBuffer> frames = frames(message);
        DirectBuffer frame = frames.get(0);
        int index = frames.size() == 1 ? ring.tryClaim(MESSAGE_TYPE_ID, frame.capacity()) : 0;
        if (index <= 0) {
            wake();
            return false;
        }
        ring.buffer().putBytes(index, frame, 0, frame.capacity());
        commit(index);
        return true;
    }

    private List<DirectBuffer> frames(Message message) {
        requireKnown(message);
        return message.frames(attempt);
    }

    private void requireKnown(Message message) {
        if (version.isBefore(message.since())) {
            throw new IllegalArgumentException(message.getClass().getSimpleName() + " of version "
                    + message.since().number() + " on the connection to " + peer() + ", which uses version "
                    + version.number() + " of the protocol");
        }
    }

    private void send(DirectBuffer frame) throws IOException {
        int index = claim(frame.capacity());
        ring.buffer().putBytes(index, frame, 0, frame.capacity());
        commit(index);
    }

    /** Wakes the agent. */
    public void wake() {
        if (sleeping.get() && sleeping.compareAndSet(true, false)) {
            connection.wakeup();
        }
    }

    // ---- the agent's thread -----------------------------------------------------------------------------------

    /** Returns true if there is space for {@code lengthBytes} written in place. */
    public boolean hasSpace(int lengthBytes) {
        return out.hasSpace(lengthBytes);
    }

    /** The buffer for frames written in place, at {@link #outOffset}. */
    public MutableDirectBuffer outBuffer() {
        return out.buffer();
    }

    public int outOffset() {
        return out.offset();
    }

    /** Appends a frame that was written in place. */
    public void advance(int lengthBytes) {
        out.advance(lengthBytes);
    }

    /**
     * Sends a message of one frame from the agent's own thread, which must not block. The link keeps the message until
     * there is space.
     */
    public void sendFromAgent(Message message) {
        requireKnown(message);
        kept.add(message.frame(attempt));
    }

    /** Like {@link #sendFromAgent}, for a message of any number of frames, while the agent sends nothing else. */
    public void sendAllFromAgent(Message message) {
        kept.addAll(frames(message));
    }

    /** Returns true if no message of the agent waits for space. Further messages would wait behind it. */
    public boolean isClear() {
        return kept.isEmpty();
    }

    /**
     * Reads received frames and collects frames of other threads. {@link #transmit} sends them once in each cycle of
     * the agent, since each send wakes the peer.
     *
     * @return the amount of work, 0 if there was none
     */
    public int doWork(FrameHandler handler) throws IOException {
        long nowNs = clockNs.getAsLong();
        if (agentThread == null) {
            // No frame was expected before this, so the silence begins here.
            lastReceivedNs = nowNs;
        }
        agentThread = Thread.currentThread();
        boolean resumed = connection.poll(attempt, nowNs, nowNs - lastReceivedNs);
        if (resumed) {
            // Sends a heartbeat at once, so that the peer detects the resumption.
            lastSentNs = System.nanoTime() - HEARTBEAT_NS - 1;
        }
        int work = receive(nowNs);
        dispatch(handler);
        work += collectFrames();
        keepAlive();
        return resumed ? work + 1 : work;
    }

    /** Sends collected frames and frames written in place, as far as the socket accepts them. */
    public int transmit() throws IOException {
        int written = connection.write();
        if (written > 0) {
            lastSentNs = System.nanoTime();
        }
        return written;
    }

    /** Sleeps until a frame arrives, {@link #wake} is called, or the time is over. */
    public void idle(long atMostMs) throws IOException {
        sleeping.set(true);
        // While unsent bytes wait for the socket, frames behind them wait too, and the socket ends the sleep.
        if (!connection.hasUnsent() && !outIsFull && hasWaiting()) {
            sleeping.set(false);
            return;
        }
        connection.sleep(atMostMs);
        sleeping.set(false);
    }

    /** Sends remaining frames, for at most {@code atMostMs}. The agent calls this before it ends. */
    public void drain(long atMostMs) throws IOException {
        long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(atMostMs);
        while (System.nanoTime() - deadlineNs < 0
                && connection.isConnected()
                && (connection.hasUnsent() || hasWaiting())) {
            collectFrames();
            if (transmit() == 0) {
                connection.sleep(1);
            }
        }
    }

    private boolean hasWaiting() {
        return (ring != null && ring.size() > 0) || !kept.isEmpty();
    }

    /**
     * Announces that the agent is about to sleep. The agent must check for work once more between this and {@link
     * #idle}.
     */
    public void prepareToSleep() {
        sleeping.set(true);
    }

    @Override
    public void close() {
        closed = true;
        connection.close();
    }

    private int collectFrames() {
        outIsFull = false;
        int collected = ring == null ? 0 : ring.controlledRead(ringReader);
        while (!kept.isEmpty() && !outIsFull) {
            DirectBuffer frame = kept.peek();
            if (hasSpace(frame.capacity())) {
                out.put(frame, 0, frame.capacity());
                kept.poll();
                collected++;
            } else {
                outIsFull = true;
            }
        }
        return collected;
    }

    private int receive(long nowNs) throws IOException {
        int read = connection.read(inBytes);
        if (read > 0) {
            lastReceivedNs = nowNs;
        } else if (nowNs - lastReceivedNs > silenceLimitNs) {
            throw new IOException("control connection to " + peer() + " has been silent for "
                    + TimeUnit.NANOSECONDS.toMillis(silenceLimitNs) + " ms: the node or the network is down");
        }
        return read;
    }

    private void dispatch(FrameHandler handler) throws IOException {
        // A handler that waits for space may have read more behind this position.
        while (inBytes.position() - dispatched >= Frame.HEADER_BYTES) {
            int offset = dispatched;
            FrameType type = Frame.requireValid(in, offset);
            int lengthBytes = Frame.lengthBytes(in, offset);
            if (inBytes.position() - offset < lengthBytes) {
                break;
            }
            if (attempt == OF_FIRST_FRAME) {
                attempt = Frame.attempt(in, offset);
            }
            if (Frame.attempt(in, offset) != attempt) {
                throw new ProtocolException("frame " + type + " of attempt " + Frame.attempt(in, offset)
                        + " on the connection of attempt " + attempt + " from " + peer() + ": refused");
            }
            dispatched = offset + lengthBytes;
            if (type == FrameType.HEARTBEAT) {
                out.acknowledge(value.wrap(in, offset).value());
            } else {
                handler.onFrame(type, in, offset, lengthBytes);
            }
        }
        if (dispatched > 0) {
            int remaining = inBytes.position() - dispatched;
            in.putBytes(0, in, dispatched, remaining);
            inBytes.position(remaining);
            dispatched = 0;
        }
    }

    private ControlledMessageHandler.Action copyFromRing(
            int typeId, MutableDirectBuffer buffer, int index, int lengthBytes) {
        if (!hasSpace(lengthBytes)) {
            outIsFull = true;
            return ControlledMessageHandler.Action.ABORT;
        }
        out.put(buffer, index, lengthBytes);
        return ControlledMessageHandler.Action.CONTINUE;
    }

    /** Processes the link while the agent itself waits for space in the ring, since no other thread empties it. */
    private void pump() throws IOException {
        if (exchange() == 0) {
            connection.sleep(1);
        }
    }

    /**
     * Sends waiting frames and reads received bytes without dispatching them. Only acknowledgements are processed,
     * which free space.
     */
    private int exchange() throws IOException {
        long nowNs = clockNs.getAsLong();
        connection.poll(attempt, nowNs, nowNs - lastReceivedNs);
        int work = receive(nowNs);
        int offset = dispatched;
        while (inBytes.position() - offset >= Frame.HEADER_BYTES) {
            FrameType type = Frame.requireValid(in, offset);
            if (inBytes.position() - offset < Frame.lengthBytes(in, offset)) {
                break;
            }
            if (type == FrameType.HEARTBEAT) {
                out.acknowledge(value.wrap(in, offset).value());
            }
            offset += Frame.lengthBytes(in, offset);
        }
        work += collectFrames();
        keepAlive();
        return work + transmit();
    }

    private void keepAlive() {
        boolean isDue = System.nanoTime() - lastSentNs > HEARTBEAT_NS && !connection.hasUnsent();
        boolean isMuch = connection.received() - acknowledgedBytes >= acknowledgeBytes;
        if (attempt != OF_FIRST_FRAME && (isDue || isMuch) && out.hasSpaceForAcknowledgement(ValueFrame.LENGTH_BYTES)) {
            acknowledgedBytes = connection.received();
            advance(ValueFrame.encode(out.buffer(), out.offset(), FrameType.HEARTBEAT, attempt, 0, acknowledgedBytes));
        }
    }
}
