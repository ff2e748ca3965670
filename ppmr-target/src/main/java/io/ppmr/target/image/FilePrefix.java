package io.ppmr.target.image;

import io.ppmr.bufferpool.ByteRangeSet;
import io.ppmr.protocol.data.FilePrefixFrame;
import org.agrona.UnsafeApi;

/**
 * The first 4 KiB of a file, which arrive at once and stay readable to the end. Restarts read the prefixes of all files
 * first, and may read a prefix more than once. Guarded by the file's lock.
 */
final class FilePrefix {
    static final int BYTES = FilePrefixFrame.PREFIX_BYTES;

    private final long address;
    private final ByteRangeSet present = new ByteRangeSet();
    private long readTo;

    FilePrefix(long address) {
        this.address = address;
    }

    /** Returns the offset up to which readers read. */
    long readTo() {
        return readTo;
    }

    /** Returns true if a frame changes bytes that were read before. */
    boolean contradicts(FilePrefixFrame frame) {
        long overlap = Math.min(frame.position() + frame.dataLengthBytes(), readTo) - frame.position();
        for (long i = 0; i < overlap; i++) {
            if (UnsafeApi.getByte(address + frame.position() + i) != UnsafeApi.getByte(frame.dataAddress() + i)) {
                return true;
            }
        }
        return false;
    }

    /** Stores a frame's bytes and returns the offset after them. */
    long put(FilePrefixFrame frame) {
        UnsafeApi.copyMemory(frame.dataAddress(), address + frame.position(), frame.dataLengthBytes());
        long end = frame.position() + (long) frame.dataLengthBytes();
        present.add(frame.position(), end);
        return end;
    }

    void truncate(long size) {
        present.truncate(size);
    }

    /**
     * Copies present bytes from {@code offset} on, at most {@code lengthBytes}. Returns 0 if the first byte is missing.
     */
    int copy(long to, int lengthBytes, long offset) {
        int bytes = (int) Math.min(lengthBytes, present.coveredTo(offset) - offset);
        if (bytes > 0) {
            UnsafeApi.copyMemory(address + offset, to, bytes);
            readTo = Math.max(readTo, offset + bytes);
        }
        return bytes;
    }

    /** Returns the end of the present bytes from {@code offset} on; {@code offset} if there is none. */
    long coveredTo(long offset) {
        return present.coveredTo(offset);
    }

    /** Returns the first present byte from {@code offset} on, or the prefix's end. */
    long nextFrom(long offset) {
        return Math.min(present.nextFrom(offset), BYTES);
    }
}
