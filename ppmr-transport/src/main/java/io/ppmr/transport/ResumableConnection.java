package io.ppmr.transport;

import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.transport.auth.PeerConnection;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The connections of a control link's two byte streams, one after the other. When a connection fails and resumption is
 * allowed, the source opens a new one. Both ends first exchange their received byte counts, and the streams continue
 * from there. So each byte arrives once, despite lost and late bytes.
 *
 * <p>The source resets a connection before it sends its byte count on the next one. Connections are numbered, and the
 * target accepts only a higher number than its current one. An orderly close of a connection ends the link.
 *
 * <p>The link's agent owns it. {@link #offer}, {@link #allowResumption} and {@link #failResumption} are for any thread.
 */
final class ResumableConnection implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ResumableConnection.class);
    private static final long SILENT_NS = TimeUnit.SECONDS.toNanos(2);
    private static final long RETRY_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long FIRST_FRAME_NS = TimeUnit.SECONDS.toNanos(2);
    private static final int MAX_CANDIDATES = 4;
    private static final int RESUME_BYTES = ValueFrame.LENGTH_BYTES;

    private final String peer;
    private final Outbox out;
    private final Selector selector;
    /** Connected and authenticated, but not processed yet. */
    private final Queue<PeerConnection> offered = new ConcurrentLinkedQueue<>();
    /** New connections whose RESUME frame did not arrive yet. Null entries are free. */
    private final NewConnection[] candidates = new NewConnection[MAX_CANDIDATES];

    private final ValueFrame resume = new ValueFrame();
    /** The link's current connection; null if there is none. */
    private PeerConnection channel;
    /** True if the peer has closed the link in order: no further bytes are read. */
    private boolean isEnded;

    private SelectionKey key;
    private int generation;
    private long received;
    private long nextTryNs;
    private String failure;
    private volatile boolean resumptionAllowed;
    private volatile ControlLink.Reconnector reconnector;
    private volatile String resumptionFailure;
    private volatile boolean closed;

    /** A new connection that waits for the peer's RESUME frame. */
    private record NewConnection(
            PeerConnection channel, SelectionKey key, int generation, ByteBuffer bytes, long dueNs) {}

    ResumableConnection(PeerConnection channel, Outbox out) throws IOException {
        this.channel = channel;
        this.out = out;
        peer = String.valueOf(channel.channel().getRemoteAddress());
        channel.channel().configureBlocking(false);
        selector = Selector.open();
        key = channel.channel().register(selector, SelectionKey.OP_READ);
    }

    String peer() {
        return peer;
    }

    /** Returns the number of received bytes of the peer's stream. */
    long received() {
        return received;
    }

    boolean isConnected() {
        // TLS sends nothing to a peer that has closed its side.
        return channel != null && !(isEnded && channel.isEncrypted());
    }

    /** Returns true if bytes of the link, or encrypted ones, wait for the socket. */
    boolean hasUnsent() {
        return out.hasUnsent() || (channel != null && channel.hasUnsent());
    }

    // ---- any thread -------------------------------------------------------------------------------------------

    /** At the target: sets whether the source may replace the connection. */
    void allowResumption(boolean allowed) {
        resumptionAllowed = allowed;
        selector.wakeup();
    }

    /** At the source: sets the reconnector and allows resumption. */
    void setReconnector(ControlLink.Reconnector newReconnector) {
        reconnector = newReconnector;
        allowResumption(true);
    }

    /** Takes over a connected channel on which both ends proved the session. */
    void offer(PeerConnection connected) {
        offered.add(connected);
        selector.wakeup();
        if (closed) {
            closeOffered();
        }
    }

    /** Reports that no new connection is possible. */
    void failResumption(String reason) {
        resumptionFailure = reason;
        selector.wakeup();
    }

    void wakeup() {
        selector.wakeup();
    }

    // ---- the agent's thread -----------------------------------------------------------------------------------

    /**
     * Reads received bytes.
     *
     * @throws IOException if the peer closed the connection, or it failed and may not be replaced
     */
    int read(ByteBuffer in) throws IOException {
        if (channel == null) {
            return 0;
        }
        int read;
        try {
            read = channel.read(in);
        } catch (IOException e) {
            handleFailure(e.getMessage());
            return 0;
        }
        if (read < 0) {
            isEnded = true;
            throw new EOFException("control connection to " + peer + " was closed by the peer");
        }
        received += read;
        return read;
    }

    /** Writes outgoing bytes, as far as the socket accepts them. */
    int write() throws IOException {
        if (channel == null || !hasUnsent()) {
            return 0;
        }
        try {
            int written = out.sendTo(channel);
            updateInterest();
            return written;
        } catch (IOException e) {
            handleFailure(e.getMessage());
            return 0;
        }
    }

    /** Sleeps until the socket is ready, {@link #wakeup} is called, or the time is over. */
    void sleep(long atMostMs) throws IOException {
        updateInterest();
        if (channel != null && channel.hasReceived()) {
            // Bytes that were decrypted and not read yet do not make the socket ready.
            selector.selectNow();
        } else {
            selector.select(atMostMs);
        }
        selector.selectedKeys().clear();
    }

    private void updateInterest() {
        if (channel != null) {
            int interest = hasUnsent() ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_READ;
            if (key.interestOps() != interest) {
                key.interestOps(interest);
            }
        }
    }

    private void handleFailure(String cause) throws IOException {
        failure = cause;
        if (!resumptionAllowed) {
            throw lostException();
        }
        LOG.warn("control connection to {} failed: {}", peer, cause);
        reset(channel, key);
        channel = null;
    }

    private IOException lostException() {
        return new IOException("control connection to " + peer + " failed: " + failure);
    }

    /**
     * Processes offered connections, and at the source requests a new one if it is needed.
     *
     * @param attempt the link's attempt, for the RESUME frame
     * @param silentNs the time since the last received byte
     * @return true if the link resumed on another connection
     */
    boolean poll(int attempt, long nowNs, long silentNs) throws IOException {
        if (!resumptionAllowed) {
            if (channel == null) {
                throw lostException();
            }
            closeOffered();
            return false;
        }
        boolean resumed = false;
        for (PeerConnection next = offered.poll(); next != null; next = offered.poll()) {
            addCandidate(next, attempt, nowNs);
        }
        for (int i = 0; i < candidates.length; i++) {
            if (candidates[i] != null) {
                resumed |= receiveResume(i, attempt, nowNs);
            }
        }
        if (reconnector != null && !resumed) {
            reconnect(nowNs, silentNs);
        }
        return resumed;
    }

    private void reconnect(long nowNs, long silentNs) throws IOException {
        String refused = resumptionFailure;
        if (refused != null) {
            resumptionFailure = null;
            if (channel == null) {
                failure += ", and cannot be replaced: " + refused;
                throw lostException();
            }
        }
        boolean hasCandidate = candidates[0] != null;
        if (!hasCandidate && nowNs - nextTryNs >= 0 && !isWorking(silentNs)) {
            nextTryNs = nowNs + (channel == null ? RETRY_NS : SILENT_NS);
            reconnector.begin();
        }
    }

    /** After a pause of this agent, bytes that the peer sent during the pause are still unread in the socket. */
    private boolean isWorking(long silentNs) throws IOException {
        if (channel == null || silentNs <= SILENT_NS) {
            return channel != null;
        }
        selector.selectNow();
        boolean hasBytes = selector.selectedKeys().contains(key);
        selector.selectedKeys().clear();
        return hasBytes;
    }

    /**
     * Registers a new connection. At the source it replaces the previous connection, which no longer delivers bytes.
     */
    private void addCandidate(PeerConnection next, int attempt, long nowNs) {
        try {
            next.channel().configureBlocking(false);
            int slot = 0;
            int itsGeneration = 0;
            if (reconnector != null) {
                if (channel != null) {
                    LOG.warn("control connection to {} is replaced: it delivers no bytes", peer);
                    failure = "it delivered no bytes";
                    reset(channel, key);
                    channel = null;
                }
                itsGeneration = ++generation;
            } else {
                while (slot < candidates.length - 1 && candidates[slot] != null) {
                    slot++;
                }
            }
            reset(slot);
            SelectionKey itsKey = next.channel().register(selector, SelectionKey.OP_READ);
            candidates[slot] = new NewConnection(
                    next, itsKey, itsGeneration, ByteBuffer.allocate(RESUME_BYTES), nowNs + FIRST_FRAME_NS);
            if (reconnector != null) {
                sendResume(next, attempt, itsGeneration);
            }
        } catch (IOException e) {
            LOG.warn("control connection to {} could not be resumed: {}", peer, e.toString());
            if (candidates[0] != null && reconnector != null) {
                reset(0);
            }
            close(next);
        }
    }

    /** Sends the RESUME frame with the number of received bytes. */
    private void sendResume(PeerConnection on, int attempt, int itsGeneration) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(RESUME_BYTES);
        ValueFrame.encode(new UnsafeBuffer(bytes), 0, FrameType.RESUME, attempt, itsGeneration, received);
        // The send buffer of a new connection has space for these few bytes.
        if (on.write(bytes) < RESUME_BYTES) {
            throw new IOException("the peer accepts no bytes");
        }
    }

    /** Reads the peer's RESUME frame as far as it arrived; returns true if the link resumed on this connection. */
    private boolean receiveResume(int slot, int attempt, long nowNs) {
        NewConnection candidate = candidates[slot];
        try {
            int read = candidate.channel.read(candidate.bytes);
            if (candidate.bytes.hasRemaining()) {
                if (read < 0 || nowNs - candidate.dueNs > 0) {
                    throw new IOException(read < 0 ? "the peer closed it" : "the peer sent no RESUME frame in time");
                }
                return false;
            }
            UnsafeBuffer frame = new UnsafeBuffer(candidate.bytes);
            resume.wrap(frame, 0);
            requireResume(frame, attempt, candidate.generation);
            int itsGeneration = resume.file();
            if (reconnector == null) {
                sendResume(candidate.channel, attempt, itsGeneration);
            }
            candidates[slot] = null;
            resumeOn(candidate, itsGeneration, resume.value());
            nextTryNs = nowNs + SILENT_NS;
            return true;
        } catch (IOException e) {
            LOG.warn("control connection to {} could not be resumed: {}", peer, e.toString());
            reset(slot);
            return false;
        }
    }

    private void requireResume(UnsafeBuffer frame, int attempt, int expectedGeneration) throws ProtocolException {
        boolean isResume = Frame.requireValid(frame, 0) == FrameType.RESUME
                && Frame.lengthBytes(frame, 0) == RESUME_BYTES
                && Frame.attempt(frame, 0) == attempt;
        boolean isLater = reconnector == null ? resume.file() > generation : resume.file() == expectedGeneration;
        if (!isResume || !isLater || !out.canResumeFrom(resume.value())) {
            throw new ProtocolException("unexpected RESUME of connection " + resume.file() + " of attempt "
                    + Frame.attempt(frame, 0) + " at byte " + resume.value() + ": the current connection is "
                    + generation
                    + " of attempt " + attempt);
        }
    }

    private void resumeOn(NewConnection next, int itsGeneration, long position) throws IOException {
        if (channel != null) {
            reset(channel, key);
        }
        channel = next.channel;
        key = next.key;
        generation = itsGeneration;
        int retransmitted = out.resumeFrom(position);
        if (reconnector != null) {
            reconnector.resumedOn(channel.channel().getRemoteAddress());
        }
        LOG.info(
                "control connection to {} resumed via {} to {}; retransmitting {} bytes",
                peer,
                channel.channel().getLocalAddress(),
                channel.channel().getRemoteAddress(),
                retransmitted);
    }

    private void reset(int slot) {
        NewConnection candidate = candidates[slot];
        candidates[slot] = null;
        if (candidate != null) {
            reset(candidate.channel, candidate.key);
        }
    }

    /** Closes a connection by a reset, so that its peer sees a failure and not an orderly end. */
    private void reset(PeerConnection old, SelectionKey itsKey) {
        itsKey.cancel();
        try {
            old.channel().setOption(StandardSocketOptions.SO_LINGER, 0);
            selector.selectNow();
        } catch (IOException e) {
            LOG.debug("ending a connection to {}: {}", peer, e.toString());
        } finally {
            close(old);
        }
    }

    private void closeOffered() {
        for (PeerConnection next = offered.poll(); next != null; next = offered.poll()) {
            close(next);
        }
    }

    private void close(PeerConnection old) {
        try {
            old.close();
        } catch (IOException e) {
            LOG.warn("closing a control connection to {}: {}", peer, e.toString());
        }
    }

    /** Ends the link: no further connection is opened. */
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
            closeOrderly(channel);
        }
    }

    /**
     * If a received frame is unread, a plain close would send a reset, which the peer does not take for an orderly end.
     */
    private void closeOrderly(PeerConnection old) {
        try {
            old.shutdownOutput();
        } catch (IOException e) {
            LOG.debug("ending the control connection to {}: {}", peer, e.toString());
        } finally {
            close(old);
        }
    }
}
