package io.ppmr.protocol.data;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Puts a message together that is too long for one frame: its bytes come in full MESSAGE_PART frames, and the rest in a
 * MESSAGE_END. Frames of other types may come between them, those of another such message may not. A part that is not
 * full is refused, so there are never more frames than the longest message has. Owned by the thread that reads the
 * frames of one connection.
 */
public final class MessageParts {
    /** No message is longer; a peer that sends more is cut off. */
    public static final int MAX_MESSAGE_BYTES = 2 << 20;

    private static final int FIRST_BYTES = 4 * Frame.MAX_FRAME_BYTES;

    /** Memory that the unfinished messages of all connections of a service share. For any thread. */
    public static final class ReassemblyBudget {
        private final AtomicLong leftBytes;

        public ReassemblyBudget(long bytes) {
            leftBytes = new AtomicLong(bytes);
        }

        /** One for a single connection. */
        public static ReassemblyBudget ofOne() {
            return new ReassemblyBudget(Frame.HEADER_BYTES + MAX_MESSAGE_BYTES);
        }

        private void take(long bytes) throws ProtocolException {
            if (leftBytes.addAndGet(-bytes) < 0) {
                leftBytes.addAndGet(bytes);
                throw new ProtocolException("too many peers send messages of several frames at once, and this one's has"
                        + " no room: try again later");
            }
        }

        private void give(long bytes) {
            leftBytes.addAndGet(bytes);
        }
    }

    private final ReassemblyBudget room;
    /** A frame as long as the message: its header, then what has come of the body. */
    private byte[] frame = new byte[0];

    private int lengthBytes;

    public MessageParts(ReassemblyBudget room) {
        this.room = room;
    }

    /** Returns true if frames of this type are parts of a message. */
    public static boolean isPart(FrameType type) {
        return type == FrameType.MESSAGE_PART || type == FrameType.MESSAGE_END;
    }

    /**
     * Takes a further frame, whose header is valid.
     *
     * @return the message, once this was its end; else null
     * @throws ProtocolException if it is out of place, or the message is too long or cannot be read
     */
    public Message add(FrameType type, DirectBuffer buffer, int offset, Message.Reader reader)
            throws ProtocolException {
        int partBytes = Frame.lengthBytes(buffer, offset) - Frame.HEADER_BYTES;
        boolean last = type == FrameType.MESSAGE_END;
        if (last && lengthBytes == 0) {
            throw new ProtocolException("the end of a message that has not begun: the peer is broken");
        }
        if (!last && partBytes != Frame.MAX_FRAME_BYTES - Frame.HEADER_BYTES) {
            throw new ProtocolException(
                    "a part of a message of " + partBytes + " bytes that is not its last: the peer" + " is broken");
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
            drop();
        }
    }

    private void grow(int wantedBytes) throws ProtocolException {
        if (wantedBytes > frame.length) {
            int most = Frame.HEADER_BYTES + MAX_MESSAGE_BYTES;
            int grownBytes = Math.min(most, Math.max(FIRST_BYTES, Math.max(wantedBytes, frame.length * 2)));
            room.take(grownBytes - frame.length);
            frame = Arrays.copyOf(frame, grownBytes);
        }
    }

    /** Forgets what has come of a message; the connection has ended, or the message was read. */
    public void drop() {
        room.give(frame.length);
        frame = new byte[0];
        lengthBytes = 0;
    }
}
