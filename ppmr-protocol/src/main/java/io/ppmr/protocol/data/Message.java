package io.ppmr.protocol.data;

import net.openhft.chronicle.bytes.Bytes;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A message of variable length on a control connection. Those of the data plane are {@link DataMessage}s; the control
 * plane adds its own. All travel in the same ordered stream as the hot frames, so what one says holds for every frame
 * after it.
 *
 * <p>A MESSAGE frame is the {@link Frame} header, one byte that names the message, and its fields in the order of the
 * record; {@link MessageFields} says how each is written. For cold frames only: each call allocates. Immutable, any
 * thread.
 */
public interface Message {
    /** Writes the byte that names the message, and its fields. */
    void write(Bytes<?> out);

    /** A whole frame with the message in it. */
    default DirectBuffer frame(int attempt) {
        Bytes<byte[]> body = Bytes.allocateElasticOnHeap(256);
        write(body);
        byte[] bytes = body.toByteArray();
        int lengthBytes = Frame.HEADER_BYTES + bytes.length;
        if (lengthBytes > Frame.MAX_FRAME_BYTES) {
            throw new IllegalArgumentException(getClass().getSimpleName() + " of " + lengthBytes
                    + " bytes does not fit a frame of " + Frame.MAX_FRAME_BYTES);
        }
        UnsafeBuffer frame = new UnsafeBuffer(new byte[lengthBytes]);
        Frame.writeHeader(frame, 0, FrameType.MESSAGE, lengthBytes, attempt, 0);
        frame.putBytes(Frame.HEADER_BYTES, bytes);
        return frame;
    }

    /** Reads the message of a MESSAGE frame whose header is valid. */
    @FunctionalInterface
    interface Reader {
        Message read(DirectBuffer frame, int offset) throws ProtocolException;
    }

    /** Reads the fields of the message that a code names; null for a code that it does not know. */
    @FunctionalInterface
    interface FieldReader {
        Message read(int code, Bytes<?> in) throws ProtocolException;
    }

    /** Reads a frame whose header is valid by a reader of its fields, which must use up all of them. */
    static Message read(DirectBuffer frame, int offset, FieldReader fields) throws ProtocolException {
        byte[] bytes = new byte[Frame.lengthBytes(frame, offset) - Frame.HEADER_BYTES];
        frame.getBytes(offset + Frame.HEADER_BYTES, bytes);
        Bytes<byte[]> body = Bytes.wrapForRead(bytes);
        try {
            int code = body.readUnsignedByte();
            Message message = fields.read(code, body);
            if (message == null) {
                throw new ProtocolException("message of unknown code " + code + ": the peer is broken");
            }
            if (body.readRemaining() != 0) {
                throw new ProtocolException(message.getClass().getSimpleName() + " with " + body.readRemaining()
                        + " bytes too many: the peer is broken");
            }
            return message;
        } catch (RuntimeException e) {
            throw new ProtocolException("a message that cannot be read: the peer is broken (" + e + ")", e);
        }
    }
}
