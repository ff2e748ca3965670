package io.ppmr.target.image;

import io.ppmr.bufferpool.ByteRangeSet;
import io.ppmr.protocol.data.FilePrefixFrame;
import org.agrona.UnsafeApi;

/**
 * The first 4 KiB of a file, which come at once and stay readable to the end: restarts read the heads of all files
 * before they read on in any, and read a head more than once. Guarded by the file's lock.
 */
final class FilePrefix {
    static final int BYTES = FilePrefixFrame.HEAD_BYTES;

    private final long address;
    private final ByteRangeSet present = new ByteRangeSet();
    private long handedTo;

    FilePrefix(long address) {
        this.address = address;
    }

    /** Returns how far readers have read. */
    long handedTo() {
        return handedTo;
    }

    /** Returns true if a frame changes bytes that were read before. */
    boolean contradicts(FilePrefixFrame frame) {
        long overlap = Math.min(frame.position() + frame.dataLengthBytes(), handedTo) - frame.position();
        for (long i = 0; i < overlap; i++) {
            if (UnsafeApi.getByte(address + frame.position() + i) != UnsafeApi.getByte(frame.dataAddress() + i)) {
                return true;
            }
        }
        return false;
    }

    /** Takes a frame's bytes and gives the offset behind them. */
    long put(FilePrefixFrame frame) {
        UnsafeApi.copyMemory(frame.dataAddress(), address + frame.position(), frame.dataLengthBytes());
        long end = frame.position() + (long) frame.dataLengthBytes();
        present.add(frame.position(), end);
        return end;
    }

    void truncate(long size) {
        present.truncate(size);
    }

    /** Copies what is there from {@code offset} on, at most {@code lengthBytes}; 0 if the first byte is not. */
    int copy(long to, int lengthBytes, long offset) {
        int bytes = (int) Math.min(lengthBytes, present.coveredTo(offset) - offset);
        if (bytes > 0) {
            UnsafeApi.copyMemory(address + offset, to, bytes);
            handedTo = Math.max(handedTo, offset + bytes);
        }
        return bytes;
    }

    /** Gives the end of the bytes that are there from {@code offset} on; {@code offset} if none is. */
    long coveredTo(long offset) {
        return present.coveredTo(offset);
    }

    /** The first byte from {@code offset} on that is there, or the head's end. */
    long nextFrom(long offset) {
        return Math.min(present.nextFrom(offset), BYTES);
    }
}
