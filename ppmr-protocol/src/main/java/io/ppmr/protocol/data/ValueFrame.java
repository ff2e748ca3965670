package io.ppmr.protocol.data;

import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * TRUNCATE, SYNC, SYNCED, END_OF_FILE, END_OF_IMAGE and HEARTBEAT: one number, whose meaning the type gives.
 *
 * <pre>
 *  16      24
 *  +-------+
 *  | value |
 *  |  u64  |
 *  +-------+
 * </pre>
 *
 * <p>A flyweight: one instance is wrapped over frame after frame by the thread that owns it.
 */
public final class ValueFrame {
    public static final int LENGTH_BYTES = 24;

    private static final int VALUE_OFFSET = 16;

    private DirectBuffer buffer;
    private int offset;

    public ValueFrame wrap(DirectBuffer frame, int frameOffset) {
        buffer = frame;
        offset = frameOffset;
        return this;
    }

    /** Writes a whole frame and returns its length. */
    public static int encode(MutableDirectBuffer out, int at, FrameType type, int attempt, int file, long value) {
        Frame.writeHeader(out, at, type, LENGTH_BYTES, attempt, file);
        out.putLong(at + VALUE_OFFSET, value, Frame.ORDER);
        return LENGTH_BYTES;
    }

    public int file() {
        return Frame.file(buffer, offset);
    }

    public long value() {
        return buffer.getLong(offset + VALUE_OFFSET, Frame.ORDER);
    }

    @Override
    public String toString() {
        return "VALUE{file=" + file() + ", value=" + value() + '}';
    }
}
