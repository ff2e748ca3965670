package io.ppmr.transport;

import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Stores the outgoing bytes of a control link, as one stream.
 *
 * <p>A byte is kept until the peer acknowledges it, so that it can be sent again on another connection. When the buffer
 * is full of unacknowledged bytes, no more are accepted. Allocated once. For one thread.
 */
final class Outbox {
    /** Reserved for acknowledgements. Without it, two full ends would deadlock. */
    private static final int RESERVE_BYTES = 4096;

    private final ByteBuffer bytes;
    private final UnsafeBuffer buffer;
    /** The stream position of the byte at {@link #kept}. */
    private long keptPosition;

    private int kept;
    private int sent;
    private int limit;

    Outbox(int capacityBytes) {
        bytes = ByteBuffer.allocateDirect(capacityBytes);
        buffer = new UnsafeBuffer(bytes);
    }

    /** Returns true if this many bytes can be written now, at {@link #offset}. */
    boolean hasSpace(int lengthBytes) {
        return makeSpace(lengthBytes, bytes.capacity() - RESERVE_BYTES);
    }

    /** Like {@link #hasSpace}, for an acknowledgement. */
    boolean hasSpaceForAcknowledgement(int lengthBytes) {
        return makeSpace(lengthBytes, bytes.capacity());
    }

    private boolean makeSpace(int lengthBytes, int end) {
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

    /** Appends the bytes that were written at {@link #offset}. */
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

    /** Sends as much as the channel accepts. */
    int sendTo(WritableByteChannel channel) throws IOException {
        bytes.limit(limit).position(sent);
        int written = channel.write(bytes);
        sent += written;
        return written;
    }

    /**
     * Acknowledges all bytes before {@code position} of the stream. Older acknowledgements are ignored.
     *
     * @throws ProtocolException if fewer bytes were sent
     */
    void acknowledge(long position) throws ProtocolException {
        if (position - keptPosition > sent - kept) {
            throw new ProtocolException("the peer acknowledges " + position
                    + " bytes of the control connection, but only " + (keptPosition + sent - kept) + " were sent");
        }
        if (position > keptPosition) {
            kept += (int) (position - keptPosition);
            keptPosition = position;
        }
    }

    /** Returns true if the stream can continue from {@code position}: that much was sent, and the rest is kept. */
    boolean canResumeFrom(long position) {
        return position >= keptPosition && position - keptPosition <= sent - kept;
    }

    /**
     * Prepares the retransmission of bytes that the peer did not receive.
     *
     * @param position a position for which {@link #canResumeFrom} is true
     * @return the number of bytes to send again
     */
    int resumeFrom(long position) throws ProtocolException {
        acknowledge(position);
        int retransmitted = sent - kept;
        sent = kept;
        return retransmitted;
    }
}
