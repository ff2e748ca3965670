package io.ppmr.transport;

import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ValueFrame;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The connections that carry a control link's two streams of bytes, one after the other. When a connection fails and
 * resumption is allowed, the source opens a new one. Both ends first exchange their received byte counts, and the
 * streams continue from there. So a byte comes once, whatever was lost or is still on its way.
 *
 * <p>The source gives a connection up, by a reset, before it says on the next one what it has. Connections are counted,
 * and the target takes none that is not later than the one it has. A connection that is closed in order has ended the
 * link: its peer has closed it.
 *
 * <p>The link's agent owns it; {@link #offer}, {@link #mayResume} and {@link #giveUp} are for any thread.
 */
final class ResumableConnection implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ResumableConnection.class);
    private static final long UNHEARD_NS = TimeUnit.SECONDS.toNanos(2);
    private static final long AGAIN_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long FIRST_WORD_NS = TimeUnit.SECONDS.toNanos(2);
    private static final int MOST_OFFERED = 4;
    private static final int WORD_BYTES = ValueFrame.LENGTH_BYTES;

    private final String peer;
    private final Outbox out;
    private final Selector selector;
    /** Connected and proved, and not looked at. */
    private final Queue<SocketChannel> offered = new ConcurrentLinkedQueue<>();
    /** Those on which the peer's first word has not come; null where there is none. */
    private final NewConnection[] candidates = new NewConnection[MOST_OFFERED];

    private final ValueFrame word = new ValueFrame();
    /** Carries the link; null while none does. */
    private SocketChannel channel;

    private SelectionKey key;
    private int generation;
    private long received;
    private long nextTryNs;
    private String whyBroken;
    private volatile boolean mayResume;
    private volatile ControlLink.Reconnector reconnector;
    private volatile String hopeless;
    private volatile boolean closed;

    /** A connection in its first moments. */
    private record NewConnection(
            SocketChannel channel, SelectionKey key, int generation, ByteBuffer bytes, long dueNs) {}

    ResumableConnection(SocketChannel channel, Outbox out) throws IOException {
        this.channel = channel;
        this.out = out;
        peer = String.valueOf(channel.getRemoteAddress());
        channel.configureBlocking(false);
        selector = Selector.open();
        key = channel.register(selector, SelectionKey.OP_READ);
    }

    String peer() {
        return peer;
    }

    /** Gives the number of bytes of the peer's stream that have come. */
    long received() {
        return received;
    }

    boolean isConnected() {
        return channel != null;
    }

    // ---- any thread -------------------------------------------------------------------------------------------

    /** At the target: sets whether the source may bring another connection. */
    void mayResume(boolean may) {
        mayResume = may;
        selector.wakeup();
    }

    /** At the source: from now on it connects again. */
    void resumeBy(ControlLink.Reconnector by) {
        reconnector = by;
        mayResume(true);
    }

    /** Takes over a connected channel on which both ends have proved the session. */
    void offer(SocketChannel connected) {
        offered.add(connected);
        selector.wakeup();
        if (closed) {
            closeOffered();
        }
    }

    /** No connection can be had. */
    void giveUp(String reason) {
        hopeless = reason;
        selector.wakeup();
    }

    void wakeup() {
        selector.wakeup();
    }

    // ---- the agent's thread -----------------------------------------------------------------------------------

    /**
     * Reads what has come.
     *
     * @throws IOException if the peer has closed the connection, or it broke and nothing may take its place
     */
    int read(ByteBuffer in) throws IOException {
        if (channel == null) {
            return 0;
        }
        int read;
        try {
            read = channel.read(in);
        } catch (IOException e) {
            broken(e.getMessage());
            return 0;
        }
        if (read < 0) {
            throw new EOFException("control connection to " + peer + " was closed by the peer");
        }
        received += read;
        return read;
    }

    /** Writes what is to go out, as far as the peer takes it. */
    int write() throws IOException {
        if (channel == null || !out.hasUnsent()) {
            return 0;
        }
        try {
            int written = out.sendTo(channel);
            watch();
            return written;
        } catch (IOException e) {
            broken(e.getMessage());
            return 0;
        }
    }

    /** Sleeps until something comes, it is woken, or the time is over. */
    void sleep(long atMostMs) throws IOException {
        watch();
        selector.select(atMostMs);
        selector.selectedKeys().clear();
    }

    private void watch() {
        if (channel != null) {
            int interest = out.hasUnsent() ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_READ;
            if (key.interestOps() != interest) {
                key.interestOps(interest);
            }
        }
    }

    private void broken(String cause) throws IOException {
        whyBroken = cause;
        if (!mayResume) {
            throw lost();
        }
        LOG.warn("control connection to {} is broken: {}", peer, cause);
        drop(channel, key);
        channel = null;
    }

    private IOException lost() {
        return new IOException("control connection to " + peer + " is broken: " + whyBroken);
    }

    /**
     * Looks at the connections that were offered, and at the source whether another one is needed.
     *
     * @param attempt of the link, stands in the first word
     * @param unheardNs for how long the peer has said nothing
     * @return true if another connection carries the link from now on
     */
    boolean look(int attempt, long nowNs, long unheardNs) throws IOException {
        if (!mayResume) {
            if (channel == null) {
                throw lost();
            }
            closeOffered();
            return false;
        }
        boolean goesOn = false;
        for (SocketChannel next = offered.poll(); next != null; next = offered.poll()) {
            begin(next, attempt, nowNs);
        }
        for (int i = 0; i < candidates.length; i++) {
            if (candidates[i] != null) {
                goesOn |= listen(i, attempt, nowNs);
            }
        }
        if (reconnector != null && !goesOn) {
            reconnect(nowNs, unheardNs);
        }
        return goesOn;
    }

    private void reconnect(long nowNs, long unheardNs) throws IOException {
        String refused = hopeless;
        if (refused != null) {
            hopeless = null;
            if (channel == null) {
                whyBroken += ", and cannot be replaced: " + refused;
                throw lost();
            }
        }
        boolean isWaitedFor = candidates[0] != null;
        if (!isWaitedFor && nowNs - nextTryNs >= 0 && !carries(unheardNs)) {
            nextTryNs = nowNs + (channel == null ? AGAIN_NS : UNHEARD_NS);
            reconnector.begin();
        }
    }

    /** After a pause of this agent's own, what the peer has said meanwhile waits at the connection. */
    private boolean carries(long unheardNs) throws IOException {
        if (channel == null || unheardNs <= UNHEARD_NS) {
            return channel != null;
        }
        selector.selectNow();
        boolean hasBytes = selector.selectedKeys().contains(key);
        selector.selectedKeys().clear();
        return hasBytes;
    }

    /** A connection is offered. At the source it takes the place of the one before, which can no longer be heard. */
    private void begin(SocketChannel next, int attempt, long nowNs) {
        try {
            next.configureBlocking(false);
            int place = 0;
            int itsGeneration = 0;
            if (reconnector != null) {
                if (channel != null) {
                    LOG.warn("control connection to {} is given up: nothing comes by it", peer);
                    whyBroken = "nothing came by it";
                    drop(channel, key);
                    channel = null;
                }
                itsGeneration = ++generation;
            } else {
                while (place < candidates.length - 1 && candidates[place] != null) {
                    place++;
                }
            }
            drop(place);
            SelectionKey itsKey = next.register(selector, SelectionKey.OP_READ);
            candidates[place] = new NewConnection(
                    next, itsKey, itsGeneration, ByteBuffer.allocate(WORD_BYTES), nowNs + FIRST_WORD_NS);
            if (reconnector != null) {
                send(next, attempt, itsGeneration);
            }
        } catch (IOException e) {
            LOG.warn("control connection to {} could not be resumed: {}", peer, e.toString());
            if (candidates[0] != null && reconnector != null) {
                drop(0);
            }
            close(next);
        }
    }

    /** Says first how much has come until now. */
    private void send(SocketChannel on, int attempt, int itsGeneration) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(WORD_BYTES);
        ValueFrame.encode(new UnsafeBuffer(bytes), 0, FrameType.RESUME, attempt, itsGeneration, received);
        // So few bytes a new connection takes at once.
        if (on.write(bytes) < WORD_BYTES) {
            throw new IOException("the peer takes no byte");
        }
    }

    /** Hears the peer's first word on a connection, as far as it has come; true if that one carries the link now. */
    private boolean listen(int place, int attempt, long nowNs) {
        NewConnection candidate = candidates[place];
        try {
            int read = candidate.channel.read(candidate.bytes);
            if (candidate.bytes.hasRemaining()) {
                if (read < 0 || nowNs - candidate.dueNs > 0) {
                    throw new IOException(read < 0 ? "the peer has closed it" : "the peer says nothing on it");
                }
                return false;
            }
            UnsafeBuffer said = new UnsafeBuffer(candidate.bytes);
            word.wrap(said, 0);
            requireWord(said, attempt, candidate.generation);
            int itsGeneration = word.file();
            if (reconnector == null) {
                send(candidate.channel, attempt, itsGeneration);
            }
            candidates[place] = null;
            adopt(candidate, itsGeneration, word.value());
            nextTryNs = nowNs + UNHEARD_NS;
            return true;
        } catch (IOException e) {
            LOG.warn("a connection does not carry on the control connection to {}: {}", peer, e.toString());
            drop(place);
            return false;
        }
    }

    private void requireWord(UnsafeBuffer said, int attempt, int expectedGeneration) throws ProtocolException {
        boolean isWord = Frame.requireValid(said, 0) == FrameType.RESUME
                && Frame.lengthBytes(said, 0) == WORD_BYTES
                && Frame.attempt(said, 0) == attempt;
        boolean isLater = reconnector == null ? word.file() > generation : word.file() == expectedGeneration;
        if (!isWord || !isLater || !out.canResumeFrom(word.value())) {
            throw new ProtocolException("it says that it is connection " + word.file() + " of attempt "
                    + Frame.attempt(said, 0) + ", and continues from byte " + word.value() + ": connection "
                    + generation
                    + " of attempt " + attempt + " is there");
        }
    }

    private void adopt(NewConnection next, int itsGeneration, long position) throws IOException {
        if (channel != null) {
            drop(channel, key);
        }
        channel = next.channel;
        key = next.key;
        generation = itsGeneration;
        int again = out.resumeFrom(position);
        if (reconnector != null) {
            reconnector.carriedTo(channel.getRemoteAddress());
        }
        LOG.info(
                "control connection to {} resumed via {} to {}; retransmitting {} bytes",
                peer,
                channel.getLocalAddress(),
                channel.getRemoteAddress(),
                again);
    }

    private void drop(int place) {
        NewConnection candidate = candidates[place];
        candidates[place] = null;
        if (candidate != null) {
            drop(candidate.channel, candidate.key);
        }
    }

    /** Ends a connection by a reset: its peer shall take it for broken, and not for the end. */
    private void drop(SocketChannel which, SelectionKey itsKey) {
        itsKey.cancel();
        try {
            which.setOption(StandardSocketOptions.SO_LINGER, 0);
            selector.selectNow();
        } catch (IOException e) {
            LOG.debug("ending a connection to {}: {}", peer, e.toString());
        } finally {
            close(which);
        }
    }

    private void closeOffered() {
        for (SocketChannel next = offered.poll(); next != null; next = offered.poll()) {
            close(next);
        }
    }

    private void close(SocketChannel which) {
        try {
            which.close();
        } catch (IOException e) {
            LOG.warn("closing a control connection to {}: {}", peer, e.toString());
        }
    }

    /** Ends the link: no further connection is made. */
    void end() {
        closed = true;
        ControlLink.Reconnector by = reconnector;
        if (by != null) {
            by.close();
        }
    }

    @Override
    public void close() {
        end();
        closeOffered();
        try {
            selector.close();
        } catch (IOException e) {
            LOG.warn("closing the control connection to {}: {}", peer, e.toString());
        }
        for (NewConnection candidate : candidates) {
            if (candidate != null) {
                close(candidate.channel);
            }
        }
        if (channel != null) {
            endInOrder(channel);
        }
    }

    /**
     * If a frame of the peer is unread, a plain close would be a reset, which the peer does not take for an orderly
     * end.
     */
    private void endInOrder(SocketChannel which) {
        try {
            which.shutdownOutput();
        } catch (IOException e) {
            LOG.debug("ending the control connection to {}: {}", peer, e.toString());
        } finally {
            close(which);
        }
    }
}
