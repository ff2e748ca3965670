package io.ppmr.protocol.data;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * The header at the start of every frame, on the control connection and on data connections. All numbers are
 * little-endian.
 *
 * <pre>
 *  0        4         5      6        8         12      16
 *  +--------+---------+------+--------+---------+-------+----
 *  | length | format  | type | flags  | attempt | file  | body
 *  |  u32   |   u8    |  u8  |  u16   |   u32   |  u32  |
 *  +--------+---------+------+--------+---------+-------+----
 * </pre>
 *
 * <p>{@code length} includes the header. {@code attempt} is the number of the migration attempt, and a frame of another
 * attempt is refused. {@code file} is the number of a file, 0 if none.
 */
public final class Frame {
    /** The format of the header. It does not change with the {@link ProtocolVersion}. */
    public static final int FORMAT = 9;

    public static final int HEADER_BYTES = 16;

    /** Maximum length of a frame. A connection is closed if its peer announces more. */
    public static final int MAX_FRAME_BYTES = 64 * 1024;

    static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private static final int LENGTH_OFFSET = 0;
    private static final int FORMAT_OFFSET = 4;
    private static final int TYPE_OFFSET = 5;
    private static final int FLAGS_OFFSET = 6;
    private static final int ATTEMPT_OFFSET = 8;
    private static final int FILE_OFFSET = 12;

    private Frame() {}

    public static void writeHeader(
            MutableDirectBuffer buffer, int offset, FrameType type, int lengthBytes, int attempt, int file) {
        buffer.putInt(offset + LENGTH_OFFSET, lengthBytes, ORDER);
        buffer.putByte(offset + FORMAT_OFFSET, (byte) FORMAT);
        buffer.putByte(offset + TYPE_OFFSET, (byte) type.code());
        buffer.putShort(offset + FLAGS_OFFSET, (short) 0, ORDER);
        buffer.putInt(offset + ATTEMPT_OFFSET, attempt, ORDER);
        buffer.putInt(offset + FILE_OFFSET, file, ORDER);
    }

    public static int lengthBytes(DirectBuffer buffer, int offset) {
        return buffer.getInt(offset + LENGTH_OFFSET, ORDER);
    }

    public static int attempt(DirectBuffer buffer, int offset) {
        return buffer.getInt(offset + ATTEMPT_OFFSET, ORDER);
    }

    public static int file(DirectBuffer buffer, int offset) {
        return buffer.getInt(offset + FILE_OFFSET, ORDER);
    }

    /**
     * Checks a header and returns its type.
     *
     * @throws ProtocolException if the format, the type or the length is invalid
     */
    public static FrameType requireValid(DirectBuffer buffer, int offset) throws ProtocolException {
        int format = buffer.getByte(offset + FORMAT_OFFSET) & 0xFF;
        if (format != FORMAT) {
            throw new ProtocolException(
                    "frame of format " + format + " instead of " + FORMAT + ": the peer is broken or not ppmr");
        }
        int code = buffer.getByte(offset + TYPE_OFFSET) & 0xFF;
        FrameType type = FrameType.of(code);
        if (type == null) {
            throw new ProtocolException("frame of unknown type " + code + ": the peer is broken or not ppmr");
        }
        int length = lengthBytes(buffer, offset);
        int atLeast = minimumBytes(type);
        if (length < atLeast || length > MAX_FRAME_BYTES) {
            throw new ProtocolException(
                    "frame " + type + " of " + length + " bytes: it must have " + atLeast + " to " + MAX_FRAME_BYTES);
        }
        return type;
    }

    private static int minimumBytes(FrameType type) {
        return switch (type) {
            case ADVERTISE -> AdvertiseFrame.LENGTH_BYTES;
            case CHUNK -> ChunkFrame.LENGTH_BYTES;
            case CREDIT_REQUEST -> CreditRequestFrame.LENGTH_BYTES;
            case CREDIT_RETURN, CREDIT, CREDIT_DENIAL -> CreditFrame.LENGTH_BYTES;
            case FILE_PREFIX -> FilePrefixFrame.DATA_OFFSET;
            case RELEASE -> ReleaseFrame.LENGTH_BYTES;
            case TRUNCATE, SYNC, SYNCED, END_OF_FILE, END_OF_IMAGE, HEARTBEAT, RAIL, RESUME -> ValueFrame.LENGTH_BYTES;
            case MESSAGE, MESSAGE_PART, MESSAGE_END -> HEADER_BYTES + 1;
        };
    }
}
