package io.ppmr.transport;

import io.ppmr.os.BootClock;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ValueFrame;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One control connection: frames out, frames in, never blocking.
 *
 * <p>One agent owns it and calls {@link #doWork}, {@link #idle} and the methods that write in place. Every other thread
 * hands its frames over by {@link #claim} or {@link #send}: they go through a ring buffer in the order in which they
 * were claimed. When the peer does not take them the ring fills and the senders wait, so a slow peer costs memory of a
 * fixed size.
 *
 * <p>A link on which nothing comes for the silence limit is dead; so that this never happens while both sides live, an
 * idle side sends a heartbeat.
 */
public final class ControlLink implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ControlLink.class);
    /** For the side that is called: the attempt is that of the first frame, before which it says nothing. */
    public static final int OF_FIRST_FRAME = 0;

    private static final int RING_BYTES = Frame.MAX_FRAME_BYTES * 8;
    private static final int BUFFER_BYTES = Frame.MAX_FRAME_BYTES * 4;
    private static final int MESSAGE_TYPE_ID = 1;
    private static final long HEARTBEAT_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long SEND_PAUSE_NS = TimeUnit.MICROSECONDS.toNanos(50);

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey selectionKey;
    private volatile int attempt;
    private final String peer;
    private final long silenceLimitNs;
    private final ManyToOneRingBuffer ring;
    private final ControlledMessageHandler ringReader = this::copyFromRing;
    private final ByteBuffer outBytes = ByteBuffer.allocateDirect(BUFFER_BYTES);
    private final UnsafeBuffer out = new UnsafeBuffer(outBytes);
    private final ByteBuffer inBytes = ByteBuffer.allocateDirect(BUFFER_BYTES);
    private final UnsafeBuffer in = new UnsafeBuffer(inBytes);
    private final AtomicBoolean sleeping = new AtomicBoolean();
    private final ArrayDeque<DirectBuffer> kept = new ArrayDeque<>();
    /** Held by whoever sends a message of several frames; the agent never takes it. */
    private final Object longMessages = new Object();

    private int outLimit;
    private long lastSentNs = System.nanoTime();
    private final LongSupplier clockNs;
    private long lastHeardNs;
    private long heartbeats;
    private volatile Thread agentThread;
    private volatile boolean closed;

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
        this.channel = channel;
        this.attempt = attempt;
        this.silenceLimitNs = silenceLimitNs;
        this.peer = String.valueOf(channel.getRemoteAddress());
        channel.configureBlocking(false);
        selector = Selector.open();
        selectionKey = channel.register(selector, SelectionKey.OP_READ);
        ring = new ManyToOneRingBuffer(new UnsafeBuffer(
                BufferUtil.allocateDirectAligned(RING_BYTES + RingBufferDescriptor.TRAILER_LENGTH, 64)));
    }

    public int attempt() {
        return attempt;
    }

    public String peer() {
        return peer;
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
            throw new IOException("control connection to " + peer + " took no frame for "
                    + TimeUnit.NANOSECONDS.toMillis(silenceLimitNs) + " ms: the peer hangs or the network is cut");
        }
        if (Thread.currentThread() == agentThread) {
            pump();
        } else {
            LockSupport.parkNanos(SEND_PAUSE_NS);
        }
    }

    /** How long a sender may wait for room. */
    public long silenceLimitNs() {
        return silenceLimitNs;
    }

    /** As {@link #claim} but without waiting: 0 or less if there is no room now. For use under a lock. */
    public int tryClaim(int lengthBytes) throws IOException {
        requireAlive();
        return ring.tryClaim(MESSAGE_TYPE_ID, lengthBytes);
    }

    /** The agent has ended: nothing that is handed over would be sent any more. */
    public void dead() {
        closed = true;
    }

    private void requireAlive() throws IOException {
        if (closed) {
            throw new IOException("control connection to " + peer + " is closed");
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

    private void send(DirectBuffer frame) throws IOException {
        int index = claim(frame.capacity());
        ring.buffer().putBytes(index, frame, 0, frame.capacity());
        commit(index);
    }

    /** Ends the agent's sleep: there is something for it to do. */
    public void wake() {
        if (sleeping.get() && sleeping.compareAndSet(true, false)) {
            selector.wakeup();
        }
    }

    // ---- the agent's thread -----------------------------------------------------------------------------------

    /** Whether the agent may write {@code lengthBytes} in place now. */
    public boolean hasRoom(int lengthBytes) {
        return outLimit + lengthBytes <= BUFFER_BYTES;
    }

    /** The buffer for frames written in place, at {@link #outOffset}. */
    public MutableDirectBuffer outBuffer() {
        return out;
    }

    public int outOffset() {
        return outLimit;
    }

    /** Takes over a frame that was written in place. */
    public void advance(int lengthBytes) {
        outLimit += lengthBytes;
    }

    /**
     * Sends a message of one frame from the agent's own thread, which must not wait for room: it keeps what does not
     * fit yet.
     */
    public void sendFromAgent(Message message) {
        kept.add(message.frame(attempt));
    }

    /**
     * Reads what has come and collects what other threads handed over; {@link #transmit} sends it, once in each round
     * of the agent, since each sending wakes the peer.
     *
     * @return how much was done, 0 if nothing
     */
    public int doWork(FrameHandler handler) throws IOException {
        if (agentThread == null) {
            // Until now nobody listened, so nobody was silent.
            lastHeardNs = clockNs.getAsLong();
        }
        agentThread = Thread.currentThread();
        int work = receive(handler);
        work += takeWaiting();
        keepAlive();
        return work;
    }

    /** Sends what was collected and what was written in place, as far as the peer takes it. */
    public int transmit() throws IOException {
        if (outLimit == 0) {
            return 0;
        }
        outBytes.position(0).limit(outLimit);
        int written = channel.write(outBytes);
        if (written > 0) {
            lastSentNs = System.nanoTime();
            int left = outLimit - written;
            if (left > 0) {
                out.putBytes(0, out, written, left);
            }
            outLimit = left;
        }
        watch();
        return written;
    }

    private void watch() {
        int interest = outLimit > 0 ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_READ;
        if (selectionKey.interestOps() != interest) {
            selectionKey.interestOps(interest);
        }
    }

    /** Sleeps until something comes, somebody calls {@link #wake}, or the time is over. */
    public void idle(long atMostMs) throws IOException {
        sleeping.set(true);
        // While bytes wait for the peer to take them, so does what is behind them: the socket ends the sleep.
        if (outLimit == 0 && (ring.size() > 0 || !kept.isEmpty())) {
            sleeping.set(false);
            return;
        }
        watch();
        selector.select(atMostMs);
        selector.selectedKeys().clear();
        sleeping.set(false);
    }

    /** Sends what is still there, for at most so long; the agent calls it before it ends. */
    public void drain(long atMostMs) throws IOException {
        long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(atMostMs);
        while (System.nanoTime() - deadlineNs < 0 && (outLimit > 0 || ring.size() > 0 || !kept.isEmpty())) {
            takeWaiting();
            if (transmit() == 0) {
                selector.select(1);
                selector.selectedKeys().clear();
            }
        }
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
        try (channel) {
            selector.close();
        } catch (IOException e) {
            LOG.warn("closing the control connection to {}: {}", peer, e.toString());
        }
    }

    private int takeWaiting() {
        int taken = ring.controlledRead(ringReader);
        while (!kept.isEmpty() && hasRoom(kept.peek().capacity())) {
            DirectBuffer frame = kept.poll();
            out.putBytes(outLimit, frame, 0, frame.capacity());
            advance(frame.capacity());
            taken++;
        }
        return taken;
    }

    private int receive(FrameHandler handler) throws IOException {
        int read = channel.read(inBytes);
        if (read < 0) {
            throw new EOFException("control connection to " + peer + " was closed by the peer");
        }
        long nowNs = clockNs.getAsLong();
        if (read == 0) {
            if (nowNs - lastHeardNs > silenceLimitNs) {
                throw new IOException("control connection to " + peer + " has been silent for "
                        + TimeUnit.NANOSECONDS.toMillis(silenceLimitNs) + " ms: the node or the network is down");
            }
            return 0;
        }
        lastHeardNs = nowNs;
        dispatch(handler);
        return read;
    }

    private void dispatch(FrameHandler handler) throws IOException {
        int end = inBytes.position();
        int offset = 0;
        while (end - offset >= Frame.HEADER_BYTES) {
            FrameType type = Frame.requireValid(in, offset);
            int lengthBytes = Frame.lengthBytes(in, offset);
            if (end - offset < lengthBytes) {
                break;
            }
            if (attempt == OF_FIRST_FRAME) {
                attempt = Frame.attempt(in, offset);
            }
            if (Frame.attempt(in, offset) != attempt) {
                throw new ProtocolException("frame " + type + " of attempt " + Frame.attempt(in, offset)
                        + " on the connection of attempt " + attempt + " from " + peer + ": refused");
            }
            if (type != FrameType.HEARTBEAT) {
                handler.onFrame(type, in, offset, lengthBytes);
            }
            offset += lengthBytes;
        }
        if (offset > 0) {
            in.putBytes(0, in, offset, end - offset);
            inBytes.position(end - offset);
        }
    }

    private ControlledMessageHandler.Action copyFromRing(
            int typeId, MutableDirectBuffer buffer, int index, int lengthBytes) {
        if (!hasRoom(lengthBytes)) {
            return ControlledMessageHandler.Action.ABORT;
        }
        out.putBytes(outLimit, buffer, index, lengthBytes);
        outLimit += lengthBytes;
        return ControlledMessageHandler.Action.CONTINUE;
    }

    /** The agent itself waits for room in the ring, which nobody else empties. */
    private void pump() throws IOException {
        if (takeWaiting() == 0 && transmit() == 0) {
            selector.select(1);
            selector.selectedKeys().clear();
        }
    }

    private void keepAlive() {
        boolean known = attempt != OF_FIRST_FRAME;
        if (known
                && System.nanoTime() - lastSentNs > HEARTBEAT_NS
                && hasRoom(ValueFrame.LENGTH_BYTES)
                && outLimit == 0) {
            advance(ValueFrame.encode(out, outLimit, FrameType.HEARTBEAT, attempt, 0, ++heartbeats));
        }
    }
}
