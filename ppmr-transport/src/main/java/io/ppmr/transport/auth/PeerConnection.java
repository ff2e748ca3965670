package io.ppmr.transport.auth;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.channels.WritableByteChannel;
import org.bouncycastle.tls.TlsProtocol;

/**
 * An authenticated connection to a peer. Where it is encrypted, its bytes travel in TLS records. For one thread, in
 * non-blocking mode.
 *
 * <p>A record that was changed, repeated, dropped or reordered on the way ends the connection with an error. So does an
 * end of the connection that the peer did not announce by TLS: such an end may come from any host on the network.
 */
public final class PeerConnection implements WritableByteChannel {
    private static final int RECORD_BYTES = 1 << 14;
    /** More than TLS 1.3 adds to a record. */
    private static final int RECORD_OVERHEAD_BYTES = 64;
    /** The most steps of one read. */
    private static final int MOST_READS = 32;

    private final SocketChannel channel;
    /** Null if the connection is not encrypted; then there are no buffers either. */
    private final TlsProtocol tls;

    private final byte[] bytes;
    private final ByteBuffer received;
    /** Encrypted bytes that the socket did not accept yet. */
    private final ByteBuffer unsent;
    /** A failure after bytes that were processed. It is thrown by the next call, so that these bytes count. */
    private IOException failure;

    /** Creates a connection without encryption. */
    public PeerConnection(SocketChannel channel) {
        this(channel, null);
    }

    /** @param tls the state of the connection after its handshake; null without encryption */
    PeerConnection(SocketChannel channel, TlsProtocol tls) {
        this.channel = channel;
        this.tls = tls;
        bytes = tls == null ? null : new byte[RECORD_BYTES + RECORD_OVERHEAD_BYTES];
        received = tls == null ? null : ByteBuffer.wrap(bytes);
        unsent = tls == null ? null : ByteBuffer.allocate(RECORD_BYTES + RECORD_OVERHEAD_BYTES);
        if (tls != null) {
            unsent.limit(0);
        }
    }

    /** The connection's socket, for its address, its options and selectors. */
    public SocketChannel channel() {
        return channel;
    }

    /** Returns true if control frames on it are encrypted. */
    public boolean isEncrypted() {
        return tls != null;
    }

    /**
     * Reads what arrived.
     *
     * @return the number of bytes; -1 if the peer ended the connection in order
     * @throws IOException if the connection failed, or its bytes were changed on the way
     */
    public int read(ByteBuffer in) throws IOException {
        if (tls == null) {
            return channel.read(in);
        }
        requireNoFailure();
        int total = 0;
        try {
            // A peer may send records without bytes for ever. Remaining bytes make the socket ready again.
            for (int i = 0; i < MOST_READS && in.hasRemaining(); i++) {
                int opened = tls.readInput(in, Math.min(in.remaining(), tls.getAvailableInputBytes()));
                total += Math.max(0, opened);
                if (opened <= 0 && !receive()) {
                    return total == 0 && tls.isClosed() ? -1 : total;
                }
            }
        } catch (IOException e) {
            total += Math.max(0, tls.readInput(in, Math.min(in.remaining(), tls.getAvailableInputBytes())));
            keep(e, total);
        }
        return total;
    }

    /** Passes received bytes to TLS; returns false if there are none. */
    private boolean receive() throws IOException {
        if (tls.isClosed()) {
            return false;
        }
        int read = channel.read(received.clear());
        if (read < 0) {
            throw new IOException("the connection ended without an end of TLS: the peer's service was killed, or a host"
                    + " on the network cut the connection");
        }
        if (read > 0) {
            tls.offerInput(bytes, 0, read);
        }
        return read > 0;
    }

    /**
     * Sends bytes as far as the socket accepts them. Encrypted bytes that it does not accept are kept for {@link
     * #flush}.
     *
     * @return the number of bytes that were taken from the buffer
     */
    @Override
    public int write(ByteBuffer from) throws IOException {
        if (tls == null) {
            return channel.write(from);
        }
        requireNoFailure();
        int taken = 0;
        try {
            while (flush() && from.hasRemaining() && !tls.isClosed()) {
                int length = Math.min(from.remaining(), RECORD_BYTES);
                from.get(bytes, 0, length);
                taken += length;
                tls.writeApplicationData(bytes, 0, length);
            }
        } catch (IOException e) {
            keep(e, taken);
        }
        return taken;
    }

    /** Sends kept bytes; returns true if none remain. */
    private boolean flush() throws IOException {
        while (true) {
            if (!unsent.hasRemaining()) {
                int length = Math.min(unsent.clear().capacity(), tls.getAvailableOutputBytes());
                tls.readOutput(unsent, length);
                unsent.flip();
                if (length == 0) {
                    return true;
                }
            }
            channel.write(unsent);
            if (unsent.hasRemaining()) {
                return false;
            }
        }
    }

    private void requireNoFailure() throws IOException {
        if (failure != null) {
            throw failure;
        }
    }

    private void keep(IOException cause, int processed) throws IOException {
        failure = cause;
        if (processed == 0) {
            throw cause;
        }
    }

    /** Returns true if encrypted bytes wait for the socket. */
    public boolean hasUnsent() {
        return tls != null && (unsent.hasRemaining() || tls.getAvailableOutputBytes() > 0);
    }

    /** Returns true if bytes can be read that the socket no longer has. */
    public boolean hasReceived() {
        return tls != null && tls.getAvailableInputBytes() > 0;
    }

    /** Announces to the peer that no more bytes follow. */
    public void shutdownOutput() throws IOException {
        if (tls != null && failure == null) {
            tls.close();
            flush();
        }
        channel.shutdownOutput();
    }

    @Override
    public boolean isOpen() {
        return channel.isOpen();
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
