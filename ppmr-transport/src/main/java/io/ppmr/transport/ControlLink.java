package io.ppmr.transport;

import io.ppmr.os.BootClock;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ValueFrame;
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
 * The control link of a session: frames out, frames in, never blocking.
 *
 * <p>One agent owns it and calls {@link #doWork}, {@link #idle} and the methods that write in place. Every other thread
 * hands its frames over by {@link #claim} or {@link #send}: they go through a ring buffer in the order in which they
 * were claimed. When the peer does not take them the ring fills and the senders wait, so a slow peer costs memory of a
 * fixed size.
 *
 * <p>A link on which nothing comes for the silence limit is dead; so that this never happens while both sides live, an
 * idle side sends a heartbeat. It says how much of the peer's frames has come, and is sent as well when that is much.
 *
 * <p>Where the session has rails the link outlives its connection: the source brings another one ({@link #resumeBy},
 * {@link #offer}), on which each side continues from what the other has ({@link ResumableConnection}). To the users of
 * the link that is a network which was slow; the silence limit counts from the last frame, whatever was connected
 * meanwhile.
 */
public final class ControlLink implements AutoCloseable {
    /** For the side that is called: the attempt is that of the first frame, before which it says nothing. */
    public static final int OF_FIRST_FRAME = 0;

    private static final int RING_BYTES = Frame.MAX_FRAME_BYTES * 8;
    private static final int BUFFER_BYTES = Frame.MAX_FRAME_BYTES * 4;
    private static final int MESSAGE_TYPE_ID = 1;
    /** An acknowledgement is sent each time this many bytes arrived, so that the peer can free them. */
    private static final int TELL_BYTES = BUFFER_BYTES / 4;

    private static final long HEARTBEAT_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long SEND_PAUSE_NS = TimeUnit.MICROSECONDS.toNanos(50);

    private final Outbox out = new Outbox(BUFFER_BYTES);
    private final ResumableConnection carrier;
    private volatile int attempt;
    private final long silenceLimitNs;
    private final ManyToOneRingBuffer ring;
    private final ControlledMessageHandler ringReader = this::copyFromRing;
    private final ByteBuffer inBytes = ByteBuffer.allocateDirect(BUFFER_BYTES);
    private final UnsafeBuffer in = new UnsafeBuffer(inBytes);
    private final AtomicBoolean sleeping = new AtomicBoolean();
    private final ArrayDeque<DirectBuffer> kept = new ArrayDeque<>();
    /** Held by the thread that sends a message of several frames; the agent never takes it. */
    private final Object longMessages = new Object();

    private final ValueFrame value = new ValueFrame();
    /** In what has come: up to where it was given to the handler. */
    private int dispatched;

    private boolean outIsFull;
    private long lastSentNs = System.nanoTime();
    private final LongSupplier clockNs;
    private long lastHeardNs;
    /** The number of the peer's bytes that the peer was last told to have come. */
    private long toldBytes;

    private volatile Thread agentThread;
    private volatile boolean closed;

    /** Connects the link again, at the source, where its connection no longer carries. Safe for any thread. */
    public interface Reconnector extends AutoCloseable {
        /**
         * Begins to connect, unless it does; does not wait. What is connected goes to {@link ControlLink#offer}; if
         * nothing can be, the link is told so by {@link ControlLink#giveUp}.
         */
        void begin();

        /**
         * Another connection carries the link from now on. Called by the link's agent.
         *
         * @param to where it leads
         */
        void carriedTo(SocketAddress to);

        /** Ends that; does not wait. */
        @Override
        void close();
    }

    /**
     * Takes over a connected and authenticated channel.
     *
     * @param attempt number of the attempt whose frames it carries, or {@link #OF_FIRST_FRAME}; frames of others are
     *     refused
     * @param silenceLimitNs how long the peer may say nothing
     */
    public ControlLink(SocketChannel channel, int attempt, long silenceLimitNs) throws IOException {
        this(channel, attempt, silenceLimitNs, BootClock::nowNs);
    }

    /** @param clockNs by which silence is counted: a machine that was suspended has heard nothing all that time */
    ControlLink(SocketChannel channel, int attempt, long silenceLimitNs, LongSupplier clockNs) throws IOException {
        this.clockNs = clockNs;
        this.lastHeardNs = clockNs.getAsLong();
        this.attempt = attempt;
        this.silenceLimitNs = silenceLimitNs;
        carrier = new ResumableConnection(channel, out);
        ring = new ManyToOneRingBuffer(new UnsafeBuffer(
                BufferUtil.allocateDirectAligned(RING_BYTES + RingBufferDescriptor.TRAILER_LENGTH, 64)));
    }

    public int attempt() {
        return attempt;
    }

    /** The address from, or to, which it was opened. */
    public String peer() {
        return carrier.peer();
    }

    // ---- any thread -------------------------------------------------------------------------------------------

    /**
     * Claims room for a frame of exactly {@code lengthBytes}, waiting while the peer takes nothing.
     *
     * @return an index for {@link #claimed} and {@link #commit}
     * @throws IOException if there is no room before the silence limit, or the link is closed
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
            awaitRoom(deadlineNs);
            index = ring.tryClaim(MESSAGE_TYPE_ID, lengthBytes);
        }
        return index;
    }

    /** Waits a moment for room in the ring, on any thread, the agent's too; throws at the deadline. */
    public void awaitRoom(long deadlineNs) throws IOException {
        requireAlive();
        if (System.nanoTime() - deadlineNs > 0) {
            throw new IOException("control connection to " + peer() + " took no frame for "
                    + TimeUnit.NANOSECONDS.toMillis(silenceLimitNs) + " ms: the peer hangs or the network is cut");
        }
        if (Thread.currentThread() == agentThread) {
            pump();
        } else {
            LockSupport.parkNanos(SEND_PAUSE_NS);
        }
    }

    /** Returns how long a sender may wait for room. */
    public long silenceLimitNs() {
        return silenceLimitNs;
    }

    /** As {@link #claim} but without waiting: 0 or less if there is no room now. For use under a lock. */
    public int tryClaim(int lengthBytes) throws IOException {
        requireAlive();
        return ring.tryClaim(MESSAGE_TYPE_ID, lengthBytes);
    }

    /** Throws if the agent has ended, since nothing would be sent. */
    public void dead() {
        closed = true;
        carrier.end();
    }

    /** At the source: from now on it has other connections made where its own no longer carries. */
    public void resumeBy(Reconnector reconnector) {
        carrier.resumeBy(reconnector);
    }

    /** At the target: whether the source may bring another connection where this one no longer carries. */
    public void mayResume(boolean may) {
        carrier.mayResume(may);
    }

    /** Takes over a connection on which source and target have proved that it is this session's. Does not wait. */
    public void offer(SocketChannel connected) {
        carrier.offer(connected);
    }

    /** No other connection can be had: if it has none it is dead. */
    public void giveUp(String reason) {
        carrier.giveUp(reason);
    }

    private void requireAlive() throws IOException {
        if (closed) {
            throw new IOException("control connection to " + peer() + " is closed");
        }
    }

    /** The buffer in which a claimed index lies. */
    public MutableDirectBuffer claimed() {
        return ring.buffer();
    }

    /** Hands a claimed frame over to the agent. */
    public void commit(int index) {
        ring.commit(index);
        wake();
    }

    /** Sends a frame that carries one number. */
    public void sendValue(FrameType type, int file, long value) throws IOException {
        int index = claim(ValueFrame.LENGTH_BYTES);
        ValueFrame.encode(ring.buffer(), index, type, attempt, file, value);
        commit(index);
    }

    /**
     * Sends a message. One of several frames is not for the agent's own thread; the frames of two such messages are
     * never mixed.
     */
    public void send(Message message) throws IOException {
        List<DirectBuffer> frames = message.frames(attempt);
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
     * Sends a message if there is room for it now, and never waits.
     *
     * @return false if it was not sent: there is no room, or it is of several frames
     */
    public boolean offer(Message message) throws IOException {
        requireAlive();
        List<DirectBuffer> frames = message.frames(attempt);
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

    private void send(DirectBuffer frame) throws IOException {
        int index = claim(frame.capacity());
        ring.buffer().putBytes(index, frame, 0, frame.capacity());
        commit(index);
    }

    /** Ends the agent's sleep: there is something for it to do. */
    public void wake() {
        if (sleeping.get() && sleeping.compareAndSet(true, false)) {
            carrier.wakeup();
        }
    }

    // ---- the agent's thread -----------------------------------------------------------------------------------

    /** Returns true if the agent may write {@code lengthBytes} in place now. */
    public boolean hasRoom(int lengthBytes) {
        return out.hasRoom(lengthBytes);
    }

    /** The buffer for frames written in place, at {@link #outOffset}. */
    public MutableDirectBuffer outBuffer() {
        return out.buffer();
    }

    public int outOffset() {
        return out.offset();
    }

    /** Takes over a frame that was written in place. */
    public void advance(int lengthBytes) {
        out.advance(lengthBytes);
    }

    /**
     * Sends a message of one frame from the agent's own thread, which must not wait for room: it keeps what does not
     * fit yet.
     */
    public void sendFromAgent(Message message) {
        kept.add(message.frame(attempt));
    }

    /** Returns true if nothing that the agent has sent waits for room: more would only wait behind it. */
    public boolean isClear() {
        return kept.isEmpty();
    }

    /**
     * Reads what has come and collects what other threads handed over; {@link #transmit} sends it, once in each round
     * of the agent, since each sending wakes the peer.
     *
     * @return how much was done, 0 if nothing
     */
    public int doWork(FrameHandler handler) throws IOException {
        long nowNs = clockNs.getAsLong();
        if (agentThread == null) {
            // Until now no frame was expected, so the silence begins here.
            lastHeardNs = nowNs;
        }
        agentThread = Thread.currentThread();
        boolean goesOn = carrier.look(attempt, nowNs, nowNs - lastHeardNs);
        if (goesOn) {
            // The peer hears a frame at once, and so that it continues.
            lastSentNs = System.nanoTime() - HEARTBEAT_NS - 1;
        }
        int work = receive(nowNs);
        dispatch(handler);
        work += takeWaiting();
        keepAlive();
        return goesOn ? work + 1 : work;
    }

    /** Sends what was collected and what was written in place, as far as the peer takes it. */
    public int transmit() throws IOException {
        int written = carrier.write();
        if (written > 0) {
            lastSentNs = System.nanoTime();
        }
        return written;
    }

    /** Sleeps until a frame arrives, {@link #wake} is called, or the time is over. */
    public void idle(long atMostMs) throws IOException {
        sleeping.set(true);
        // While bytes wait for the peer to take them, so does what is behind them: the socket ends the sleep.
        if (!out.hasUnsent() && !outIsFull && hasWaiting()) {
            sleeping.set(false);
            return;
        }
        carrier.sleep(atMostMs);
        sleeping.set(false);
    }

    /** Sends what is still there, for at most so long; the agent calls it before it ends. */
    public void drain(long atMostMs) throws IOException {
        long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(atMostMs);
        while (System.nanoTime() - deadlineNs < 0 && carrier.isConnected() && (out.hasUnsent() || hasWaiting())) {
            takeWaiting();
            if (transmit() == 0) {
                carrier.sleep(1);
            }
        }
    }

    private boolean hasWaiting() {
        return ring.size() > 0 || !kept.isEmpty();
    }

    /**
     * Announces that the agent is about to sleep: it must look once more for work after this and before {@link
     * #idle}.
     */
    public void prepareToSleep() {
        sleeping.set(true);
    }

    @Override
    public void close() {
        closed = true;
        carrier.close();
    }

    private int takeWaiting() {
        outIsFull = false;
        int taken = ring.controlledRead(ringReader);
        while (!kept.isEmpty() && !outIsFull) {
            DirectBuffer frame = kept.peek();
            if (hasRoom(frame.capacity())) {
                out.put(frame, 0, frame.capacity());
                kept.poll();
                taken++;
            } else {
                outIsFull = true;
            }
        }
        return taken;
    }

    private int receive(long nowNs) throws IOException {
        int read = carrier.read(inBytes);
        if (read > 0) {
            lastHeardNs = nowNs;
        } else if (nowNs - lastHeardNs > silenceLimitNs) {
            throw new IOException("control connection to " + peer() + " has been silent for "
                    + TimeUnit.NANOSECONDS.toMillis(silenceLimitNs) + " ms: the node or the network is down");
        }
        return read;
    }

    private void dispatch(FrameHandler handler) throws IOException {
        // A handler that waits for room has more read behind this.
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
            int left = inBytes.position() - dispatched;
            in.putBytes(0, in, dispatched, left);
            inBytes.position(left);
            dispatched = 0;
        }
    }

    private ControlledMessageHandler.Action copyFromRing(
            int typeId, MutableDirectBuffer buffer, int index, int lengthBytes) {
        if (!hasRoom(lengthBytes)) {
            outIsFull = true;
            return ControlledMessageHandler.Action.ABORT;
        }
        out.put(buffer, index, lengthBytes);
        return ControlledMessageHandler.Action.CONTINUE;
    }

    /** The agent itself waits for room in the ring, which no other process empties. */
    private void pump() throws IOException {
        if (exchange() == 0) {
            carrier.sleep(1);
        }
    }

    /**
     * Sends what waits, and reads what has come without giving it to anybody: only what the peer says that it has, so
     * that there is room again.
     */
    private int exchange() throws IOException {
        long nowNs = clockNs.getAsLong();
        carrier.look(attempt, nowNs, nowNs - lastHeardNs);
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
        work += takeWaiting();
        keepAlive();
        return work + transmit();
    }

    private void keepAlive() {
        boolean isDue = System.nanoTime() - lastSentNs > HEARTBEAT_NS && !out.hasUnsent();
        boolean isMuch = carrier.received() - toldBytes >= TELL_BYTES;
        if (attempt != OF_FIRST_FRAME && (isDue || isMuch) && out.hasRoomForAcknowledgement(ValueFrame.LENGTH_BYTES)) {
            toldBytes = carrier.received();
            advance(ValueFrame.encode(out.buffer(), out.offset(), FrameType.HEARTBEAT, attempt, 0, toldBytes));
        }
    }
}
