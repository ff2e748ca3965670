package io.ppmr.protocol.data;

import org.agrona.MutableDirectBuffer;

/**
 * FILE_PREFIX: bytes of the first 4 KiB of a file. They are sent at once and without a slot, and stay readable to the
 * end of the migration.
 *
 * <pre>
 *  16          20       24
 *  +-----------+--------+------
 *  | position  | length | data
 *  |   u32     |  u32   |
 *  +-----------+--------+------
 * </pre>
 */
public final class FilePrefixFrame extends Flyweight<FilePrefixFrame> {
    /** Length of each file's prefix, which is sent this way. */
    public static final int PREFIX_BYTES = 4096;

    public static final int DATA_OFFSET = 24;

    private static final int POSITION_OFFSET = 16;
    private static final int DATA_LENGTH_OFFSET = 20;

    /**
     * Writes the frame without the data, which goes to {@code at + DATA_OFFSET}. Returns the length of the whole frame.
     */
    public static int encode(
            MutableDirectBuffer out, int at, int attempt, int file, int position, int dataLengthBytes) {
        int lengthBytes = DATA_OFFSET + dataLengthBytes;
        Frame.writeHeader(out, at, FrameType.FILE_PREFIX, lengthBytes, attempt, file);
        out.putInt(at + POSITION_OFFSET, position, Frame.ORDER);
        out.putInt(at + DATA_LENGTH_OFFSET, dataLengthBytes, Frame.ORDER);
        return lengthBytes;
    }

    public int position() {
        return buffer.getInt(offset + POSITION_OFFSET, Frame.ORDER);
    }

    public int dataLengthBytes() {
        return buffer.getInt(offset + DATA_LENGTH_OFFSET, Frame.ORDER);
    }

    /** Native address of the data, which is valid as long as the frame. */
    public long dataAddress() {
        return buffer.addressOffset() + offset + DATA_OFFSET;
    }

    /** Returns true if the data lies within the frame and within a prefix. */
    public boolean isConsistent() {
        long length = dataLengthBytes();
        return length > 0
                && position() >= 0
                && position() + length <= PREFIX_BYTES
                && DATA_OFFSET + length == Frame.lengthBytes(buffer, offset);
    }

    @Override
    public String toString() {
        return "FILE_PREFIX{file=" + file() + ", position=" + position() + ", length=" + dataLengthBytes() + '}';
    }
}
