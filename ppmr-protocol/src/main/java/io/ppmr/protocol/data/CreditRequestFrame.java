package io.ppmr.protocol.data;

import org.agrona.MutableDirectBuffer;

/**
 * CREDIT_REQUEST: requests credits for {@code count} windows of a file, beginning at {@code window}.
 *
 * <pre>
 *  16       24      28      32
 *  +--------+-------+-------+
 *  | window | count | flags |
 *  |  u64   |  u32  |  u32  |
 *  +--------+-------+-------+
 * </pre>
 */
public final class CreditRequestFrame extends Flyweight<CreditRequestFrame> {
    public static final int LENGTH_BYTES = 32;

    /** Maximum number of windows in one frame. */
    public static final int MAX_COUNT = 64;

    /** Flag: a writer is blocked until the first of the windows is granted or denied. */
    public static final int BLOCKED = 1;

    private static final int WINDOW_OFFSET = 16;
    private static final int COUNT_OFFSET = 24;
    private static final int FLAGS_OFFSET = 28;

    /** Writes a whole frame and returns its length. */
    public static int encode(
            MutableDirectBuffer out, int at, int attempt, int file, long window, int count, int flags) {
        Frame.writeHeader(out, at, FrameType.CREDIT_REQUEST, LENGTH_BYTES, attempt, file);
        out.putLong(at + WINDOW_OFFSET, window, Frame.ORDER);
        out.putInt(at + COUNT_OFFSET, count, Frame.ORDER);
        out.putInt(at + FLAGS_OFFSET, flags, Frame.ORDER);
        return LENGTH_BYTES;
    }

    public long window() {
        return buffer.getLong(offset + WINDOW_OFFSET, Frame.ORDER);
    }

    public int count() {
        return buffer.getInt(offset + COUNT_OFFSET, Frame.ORDER);
    }

    public int flags() {
        return buffer.getInt(offset + FLAGS_OFFSET, Frame.ORDER);
    }
}
