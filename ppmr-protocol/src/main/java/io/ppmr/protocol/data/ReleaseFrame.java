package io.ppmr.protocol.data;

import org.agrona.MutableDirectBuffer;

/**
 * RELEASE: the chunk with this {@code order} arrived completely, so the source may reuse it.
 *
 * <pre>
 *  16      24            28     32
 *  +-------+-------------+------+
 *  | order | sourceChunk | zero |
 *  |  u64  |     u32     | u32  |
 *  +-------+-------------+------+
 * </pre>
 */
public final class ReleaseFrame extends Flyweight<ReleaseFrame> {
    public static final int LENGTH_BYTES = 32;

    private static final int ORDER_OFFSET = 16;
    private static final int SOURCE_CHUNK_OFFSET = 24;

    /** Writes a whole frame and returns its length. */
    public static int encode(MutableDirectBuffer out, int at, int attempt, int file, long order, int sourceChunk) {
        Frame.writeHeader(out, at, FrameType.RELEASE, LENGTH_BYTES, attempt, file);
        out.putLong(at + ORDER_OFFSET, order, Frame.ORDER);
        out.putInt(at + SOURCE_CHUNK_OFFSET, sourceChunk, Frame.ORDER);
        out.putInt(at + 28, 0, Frame.ORDER);
        return LENGTH_BYTES;
    }

    public long order() {
        return buffer.getLong(offset + ORDER_OFFSET, Frame.ORDER);
    }

    public int sourceChunk() {
        return buffer.getInt(offset + SOURCE_CHUNK_OFFSET, Frame.ORDER);
    }
}
