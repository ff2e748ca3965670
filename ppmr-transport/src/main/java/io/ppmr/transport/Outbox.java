package io.ppmr.transport;

import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Keeps what goes out on a control link, as one stream of bytes.
 *
 * <p>A byte stays until the peer has said that it has it, so that
 * it can go again on another connection; when that is missing for as much as fits, nothing more is taken. Allocated
 * once. For one thread.
 */
final class Outbox {
    /** Is left for the words that say what has come: two ends that are full would else wait for each other's. */
    private static final int RESERVE_BYTES = 4096;

    private final ByteBuffer bytes;
    private final UnsafeBuffer buffer;
    /** Of the byte at {@link #kept} in the stream. */
    private long keptPosition;

    private int kept;
    private int sent;
    private int limit;

    Outbox(int capacityBytes) {
        bytes = ByteBuffer.allocateDirect(capacityBytes);
        buffer = new UnsafeBuffer(bytes);
    }

    /** Returns true if so much can be written now, at {@link #offset}. */
    boolean hasRoom(int lengthBytes) {
        return makeRoom(lengthBytes, bytes.capacity() - RESERVE_BYTES);
    }

    /** As {@link #hasRoom}, for the word that says what has come. */
    boolean hasRoomForWord(int lengthBytes) {
        return makeRoom(lengthBytes, bytes.capacity());
    }

    private boolean makeRoom(int lengthBytes, int end) {
        if (limit + lengthBytes > end && kept > 0) {
            buffer.putBytes(0, buffer, kept, limit - kept);
            sent -= kept;
            limit -= kept;
            kept = 0;
        }
        return limit + lengthBytes <= end;
    }

    MutableDirectBuffer buffer() {
        return buffer;
    }

    int offset() {
        return limit;
    }

    /** Takes over what was written at {@link #offset}. */
    void advance(int lengthBytes) {
        limit += lengthBytes;
    }

    void put(DirectBuffer from, int index, int lengthBytes) {
        buffer.putBytes(limit, from, index, lengthBytes);
        limit += lengthBytes;
    }

    boolean hasUnsent() {
        return sent < limit;
    }

    /** Sends as much as the channel takes. */
    int sendTo(WritableByteChannel channel) throws IOException {
        bytes.limit(limit).position(sent);
        int written = channel.write(bytes);
        sent += written;
        return written;
    }

    /**
     * The peer has everything before {@code position} of the stream; what it has said before does not count any more.
     *
     * @throws ProtocolException if so much was not sent
     */
    void has(long position) throws ProtocolException {
        if (position - keptPosition > sent - kept) {
            throw new ProtocolException("the peer says that it has " + position + " bytes of the control connection, of"
                    + " which " + (keptPosition + sent - kept) + " were sent");
        }
        if (position > keptPosition) {
            kept += (int) (position - keptPosition);
            keptPosition = position;
        }
    }

    /**
     * Returns true if the stream can go on from {@code position}: the peer was sent that much, and the rest is kept.
     */
    boolean canGoOnFrom(long position) {
        return position >= keptPosition && position - keptPosition <= sent - kept;
    }

    /**
     * Has what the peer does not have sent again.
     *
     * @param position from which {@link #canGoOnFrom}
     * @return how many bytes go again
     */
    int goOnFrom(long position) throws ProtocolException {
        has(position);
        int again = sent - kept;
        sent = kept;
        return again;
    }
}
