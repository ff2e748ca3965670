package io.ppmr.protocol.data;

import org.agrona.MutableDirectBuffer;

/**
 * TRUNCATE, SYNC, SYNCED, END_OF_FILE, END_OF_IMAGE, HEARTBEAT, RAIL and RESUME: one number, whose meaning depends
 * on the type.
 *
 * <pre>
 *  16      24
 *  +-------+
 *  | value |
 *  |  u64  |
 *  +-------+
 * </pre>
 */
public final class ValueFrame extends Flyweight<ValueFrame> {
    public static final int LENGTH_BYTES = 24;

    private static final int VALUE_OFFSET = 16;

    /** Writes a whole frame and returns its length. */
    public static int encode(MutableDirectBuffer out, int at, FrameType type, int attempt, int file, long value) {
        Frame.writeHeader(out, at, type, LENGTH_BYTES, attempt, file);
        out.putLong(at + VALUE_OFFSET, value, Frame.ORDER);
        return LENGTH_BYTES;
    }

    public long value() {
        return buffer.getLong(offset + VALUE_OFFSET, Frame.ORDER);
    }
}
