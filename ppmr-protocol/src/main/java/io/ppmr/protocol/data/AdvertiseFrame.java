package io.ppmr.protocol.data;

import org.agrona.MutableDirectBuffer;

/**
 * ADVERTISE: a chunk of a file is ready at the source for an RDMA Read (paper 1, section IV, step 3).
 *
 * <pre>
 *  16       24      32        40    48       52       56            60     64
 *  +--------+-------+---------+-----+--------+--------+-------------+------+
 *  | offset | order | address | key | length | crc32c | sourceChunk | slot |
 *  |  u64   |  u64  |   u64   | u64 |  u32   |  u32   |     u32     | u32  |
 *  +--------+-------+---------+-----+--------+--------+-------------+------+
 * </pre>
 */
public final class AdvertiseFrame extends Flyweight<AdvertiseFrame> {
    public static final int LENGTH_BYTES = 64;

    private static final int OFFSET_OFFSET = 16;
    private static final int ORDER_OFFSET = 24;
    private static final int ADDRESS_OFFSET = 32;
    private static final int KEY_OFFSET = 40;
    private static final int LENGTH_BYTES_OFFSET = 48;
    private static final int CRC32C_OFFSET = 52;
    private static final int SOURCE_CHUNK_OFFSET = 56;
    private static final int SLOT_OFFSET = 60;

    /** Writes a whole frame and returns its length. */
    public static int encode(
            MutableDirectBuffer out,
            int at,
            int attempt,
            int file,
            long offset,
            long order,
            long address,
            long key,
            int lengthBytes,
            int crc32c,
            int sourceChunk,
            int slot) {
        Frame.writeHeader(out, at, FrameType.ADVERTISE, LENGTH_BYTES, attempt, file);
        out.putLong(at + OFFSET_OFFSET, offset, Frame.ORDER);
        out.putLong(at + ORDER_OFFSET, order, Frame.ORDER);
        out.putLong(at + ADDRESS_OFFSET, address, Frame.ORDER);
        out.putLong(at + KEY_OFFSET, key, Frame.ORDER);
        out.putInt(at + LENGTH_BYTES_OFFSET, lengthBytes, Frame.ORDER);
        out.putInt(at + CRC32C_OFFSET, crc32c, Frame.ORDER);
        out.putInt(at + SOURCE_CHUNK_OFFSET, sourceChunk, Frame.ORDER);
        out.putInt(at + SLOT_OFFSET, slot, Frame.ORDER);
        return LENGTH_BYTES;
    }

    public long offset() {
        return buffer.getLong(offset + OFFSET_OFFSET, Frame.ORDER);
    }

    public long order() {
        return buffer.getLong(offset + ORDER_OFFSET, Frame.ORDER);
    }

    public long address() {
        return buffer.getLong(offset + ADDRESS_OFFSET, Frame.ORDER);
    }

    public long key() {
        return buffer.getLong(offset + KEY_OFFSET, Frame.ORDER);
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
}
