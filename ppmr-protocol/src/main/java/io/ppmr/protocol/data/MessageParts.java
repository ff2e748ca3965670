package io.ppmr.protocol.data;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Reassembles a message that is too long for one frame. Its bytes arrive in full MESSAGE_PART frames and a last
 * MESSAGE_END. Frames of other types may come between them, but not frames of another such message. A part that is not
 * full is refused, which limits the number of frames. Owned by the thread that reads the frames of one connection.
 */
public final class MessageParts {
    /** Maximum length of a message. A connection is closed if its peer sends more. */
    public static final int MAX_MESSAGE_BYTES = 2 << 20;

    private static final int FIRST_BYTES = 4 * Frame.MAX_FRAME_BYTES;

    /** Memory limit that the unfinished messages of all connections of a service share. For any thread. */
    public static final class ReassemblyBudget {
        private final AtomicLong remainingBytes;

        public ReassemblyBudget(long bytes) {
            remainingBytes = new AtomicLong(bytes);
        }

        /** Creates a budget for a single connection. */
        public static ReassemblyBudget forOneConnection() {
            return new ReassemblyBudget(Frame.HEADER_BYTES + MAX_MESSAGE_BYTES);
        }

        private void reserve(long bytes) throws ProtocolException {
            if (remainingBytes.addAndGet(-bytes) < 0) {
                remainingBytes.addAndGet(bytes);
                throw new ProtocolException(
                        "no memory for a message of several frames, because too many peers send such messages:"
                                + " try again later");
            }
        }

        private void release(long bytes) {
            remainingBytes.addAndGet(bytes);
        }
    }

    private final ReassemblyBudget budget;
    /** A frame of the message's length: its header, then the received part of the body. */
    private byte[] frame = new byte[0];

    private int lengthBytes;

    public MessageParts(ReassemblyBudget budget) {
        this.budget = budget;
    }

    /** Returns true if frames of this type are parts of a message. */
    public static boolean isPart(FrameType type) {
        return type == FrameType.MESSAGE_PART || type == FrameType.MESSAGE_END;
    }

    /**
     * Adds a further frame, whose header is valid.
     *
     * @return the message if this frame was its last; otherwise null
     * @throws ProtocolException if the frame is out of order, or the message is too long or invalid
     */
    public Message add(FrameType type, DirectBuffer buffer, int offset, Message.Reader reader)
            throws ProtocolException {
        int partBytes = Frame.lengthBytes(buffer, offset) - Frame.HEADER_BYTES;
        boolean last = type == FrameType.MESSAGE_END;
        if (last && lengthBytes == 0) {
            throw new ProtocolException("a MESSAGE_END without a MESSAGE_PART: the peer is broken");
        }
        if (!last && partBytes != Frame.MAX_FRAME_BYTES - Frame.HEADER_BYTES) {
            throw new ProtocolException(
                    "a MESSAGE_PART of " + partBytes + " bytes, which is not full: the peer is broken");
        }
        int wholeBytes = Math.max(Frame.HEADER_BYTES, lengthBytes) + partBytes;
        if (wholeBytes > Frame.HEADER_BYTES + MAX_MESSAGE_BYTES) {
            throw new ProtocolException("a message of more than " + MAX_MESSAGE_BYTES + " bytes: the peer is broken");
        }
        grow(wholeBytes);
        buffer.getBytes(offset + Frame.HEADER_BYTES, frame, wholeBytes - partBytes, partBytes);
        lengthBytes = wholeBytes;
        if (!last) {
            return null;
        }
        UnsafeBuffer whole = new UnsafeBuffer(frame, 0, lengthBytes);
        Frame.writeHeader(whole, 0, FrameType.MESSAGE, lengthBytes, Frame.attempt(buffer, offset), 0);
        try {
            return reader.read(whole, 0);
        } finally {
            discard();
        }
    }

    private void grow(int wantedBytes) throws ProtocolException {
        if (wantedBytes > frame.length) {
            int most = Frame.HEADER_BYTES + MAX_MESSAGE_BYTES;
            int grownBytes = Math.min(most, Math.max(FIRST_BYTES, Math.max(wantedBytes, frame.length * 2)));
            budget.reserve(grownBytes - frame.length);
            frame = Arrays.copyOf(frame, grownBytes);
        }
    }

    /** Discards the received part of a message, because the connection ended or the message was read. */
    public void discard() {
        budget.release(frame.length);
        frame = new byte[0];
        lengthBytes = 0;
    }
}
