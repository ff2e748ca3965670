package io.ppmr.protocol.data;

import java.util.ArrayList;
import java.util.List;
import net.openhft.chronicle.bytes.Bytes;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A message of variable length on a control connection. {@link DataMessage} has the messages of the data plane. The
 * control plane adds its own. All messages and frames share one ordered stream, so a message applies to every frame
 * after it.
 *
 * <p>A MESSAGE frame consists of the {@link Frame} header, a byte that identifies the message, and its fields in the
 * order of the record. {@link MessageFields} defines the form of each field. A message that does not fit one frame is
 * split, see {@link MessageParts}. Each call allocates, so messages are only for infrequent events. Immutable, any
 * thread.
 */
public interface Message {
    /** Writes the byte that identifies the message, and its fields. */
    void write(Bytes<?> out);

    /**
     * Returns the first version of the protocol that has this message with all fields that {@link #write} writes. It is
     * sent only on connections that agreed on this version or a later one.
     */
    default ProtocolVersion since() {
        return ProtocolVersion.OLDEST;
    }

    /** Returns the frames of the message: one if it fits, otherwise full ones and a last one. */
    default List<DirectBuffer> frames(int attempt) {
        Bytes<byte[]> body = Bytes.allocateElasticOnHeap(256);
        write(body);
        byte[] bytes = body.toByteArray();
        if (bytes.length > MessageParts.MAX_MESSAGE_BYTES) {
            throw new IllegalArgumentException(getClass().getSimpleName() + " of " + bytes.length
                    + " bytes is longer than a message may be, " + MessageParts.MAX_MESSAGE_BYTES);
        }
        int mostBytes = Frame.MAX_FRAME_BYTES - Frame.HEADER_BYTES;
        if (bytes.length <= mostBytes) {
            return List.of(frame(FrameType.MESSAGE, bytes, 0, bytes.length, attempt));
        }
        List<DirectBuffer> frames = new ArrayList<>();
        for (int from = 0; from < bytes.length; from += mostBytes) {
            int partBytes = Math.min(mostBytes, bytes.length - from);
            FrameType type = from + partBytes < bytes.length ? FrameType.MESSAGE_PART : FrameType.MESSAGE_END;
            frames.add(frame(type, bytes, from, partBytes, attempt));
        }
        return frames;
    }

    /** Returns the only frame of a message that fits one. */
    default DirectBuffer frame(int attempt) {
        List<DirectBuffer> frames = frames(attempt);
        if (frames.size() > 1) {
            throw new IllegalArgumentException(
                    getClass().getSimpleName() + " does not fit a frame of " + Frame.MAX_FRAME_BYTES + " bytes");
        }
        return frames.get(0);
    }

    private static DirectBuffer frame(FrameType type, byte[] bytes, int from, int lengthBytes, int attempt) {
        UnsafeBuffer frame = new UnsafeBuffer(new byte[Frame.HEADER_BYTES + lengthBytes]);
        Frame.writeHeader(frame, 0, type, frame.capacity(), attempt, 0);
        frame.putBytes(Frame.HEADER_BYTES, bytes, from, lengthBytes);
        return frame;
    }

    /** Reads the message of a MESSAGE frame whose header is valid. */
    @FunctionalInterface
    interface Reader {
        Message read(DirectBuffer frame, int offset) throws ProtocolException;
    }

    /** Reads the fields of the message with a code; null for an unknown code. */
    @FunctionalInterface
    interface FieldReader {
        Message read(int code, Bytes<?> in) throws ProtocolException;
    }

    /** Reads a frame whose header is valid. The field reader must consume all bytes. */
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
            throw new ProtocolException("a message cannot be decoded: the peer is broken (" + e + ")", e);
        }
    }
}
