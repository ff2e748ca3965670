package io.ppmr.protocol.data;

import org.agrona.MutableDirectBuffer;

/**
 * CHUNK: {@code lengthBytes} bytes of a file follow on the data connection. They use the credit of a slot that was
 * granted for their window.
 *
 * <pre>
 *  16       24      32       36       40            44     48
 *  +--------+-------+--------+--------+-------------+------+---------------
 *  | offset | order | length | crc32c | sourceChunk | slot | the bytes
 *  |  u64   |  u64  |  u32   |  u32   |     u32     | u32  |
 *  +--------+-------+--------+--------+-------------+------+---------------
 * </pre>
 *
 * <p>{@code order} counts the chunks of one data connection. The length in the frame's header excludes the bytes of
 * the chunk.
 */
public final class ChunkFrame extends Flyweight<ChunkFrame> {
    public static final int LENGTH_BYTES = 48;

    /** Header flag: the source has few free chunks left, so the target should release this one without delay. */
    public static final int RELEASE_SOON = 1;

    private static final int FLAGS_OFFSET = 6;
    private static final int OFFSET_OFFSET = 16;
    private static final int ORDER_OFFSET = 24;
    private static final int LENGTH_BYTES_OFFSET = 32;
    private static final int CRC32C_OFFSET = 36;
    private static final int SOURCE_CHUNK_OFFSET = 40;
    private static final int SLOT_OFFSET = 44;

    /** Writes a whole frame, except for its order, and returns its length. */
    public static int encode(
            MutableDirectBuffer out,
            int at,
            int attempt,
            int file,
            long offset,
            int lengthBytes,
            int crc32c,
            int sourceChunk,
            int slot,
            int flags) {
        Frame.writeHeader(out, at, FrameType.CHUNK, LENGTH_BYTES, attempt, file);
        out.putShort(at + FLAGS_OFFSET, (short) flags, Frame.ORDER);
        out.putLong(at + OFFSET_OFFSET, offset, Frame.ORDER);
        out.putLong(at + ORDER_OFFSET, 0, Frame.ORDER);
        out.putInt(at + LENGTH_BYTES_OFFSET, lengthBytes, Frame.ORDER);
        out.putInt(at + CRC32C_OFFSET, crc32c, Frame.ORDER);
        out.putInt(at + SOURCE_CHUNK_OFFSET, sourceChunk, Frame.ORDER);
        out.putInt(at + SLOT_OFFSET, slot, Frame.ORDER);
        return LENGTH_BYTES;
    }

    /** Writes the order, which is assigned when the frame is sent. */
    public static void number(MutableDirectBuffer out, int at, long order) {
        out.putLong(at + ORDER_OFFSET, order, Frame.ORDER);
    }

    public int flags() {
        return buffer.getShort(offset + FLAGS_OFFSET, Frame.ORDER) & 0xFFFF;
    }

    public int attempt() {
        return Frame.attempt(buffer, offset);
    }

    public long offset() {
        return buffer.getLong(offset + OFFSET_OFFSET, Frame.ORDER);
    }

    public long order() {
        return buffer.getLong(offset + ORDER_OFFSET, Frame.ORDER);
    }

    public int lengthBytes() {
        return buffer.getInt(offset + LENGTH_BYTES_OFFSET, Frame.ORDER);
    }

    public int crc32c() {
        return buffer.getInt(offset + CRC32C_OFFSET, Frame.ORDER);
    }

    public int sourceChunk() {
        return buffer.getInt(offset + SOURCE_CHUNK_OFFSET, Frame.ORDER);
    }

    public int slot() {
        return buffer.getInt(offset + SLOT_OFFSET, Frame.ORDER);
    }

    @Override
    public String toString() {
        return "CHUNK{file=" + file()
                + ", offset=" + offset()
                + ", order=" + order()
                + ", lengthBytes=" + lengthBytes()
                + ", crc32c=" + crc32c()
                + ", sourceChunk=" + sourceChunk()
                + ", slot=" + slot()
                + '}';
    }
}
