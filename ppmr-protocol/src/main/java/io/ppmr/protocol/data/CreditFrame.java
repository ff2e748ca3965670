package io.ppmr.protocol.data;

import org.agrona.MutableDirectBuffer;

/**
 * CREDIT, CREDIT_RETURN and CREDIT_DENIAL: a receive slot of the target for one window of a file. In a denial the slot
 * field contains a {@link DenyReason}.
 *
 * <pre>
 *  16       24     28     32
 *  +--------+------+------+
 *  | window | slot | zero |
 *  |  u64   | u32  | u32  |
 *  +--------+------+------+
 * </pre>
 */
public final class CreditFrame extends Flyweight<CreditFrame> {
    public static final int LENGTH_BYTES = 32;

    private static final int WINDOW_OFFSET = 16;
    private static final int SLOT_OFFSET = 24;

    /** Writes a whole frame and returns its length. */
    public static int encode(
            MutableDirectBuffer out, int at, FrameType type, int attempt, int file, long window, int slot) {
        Frame.writeHeader(out, at, type, LENGTH_BYTES, attempt, file);
        out.putLong(at + WINDOW_OFFSET, window, Frame.ORDER);
        out.putInt(at + SLOT_OFFSET, slot, Frame.ORDER);
        out.putInt(at + 28, 0, Frame.ORDER);
        return LENGTH_BYTES;
    }

    public long window() {
        return buffer.getLong(offset + WINDOW_OFFSET, Frame.ORDER);
    }

    public int slot() {
        return buffer.getInt(offset + SLOT_OFFSET, Frame.ORDER);
    }
}
