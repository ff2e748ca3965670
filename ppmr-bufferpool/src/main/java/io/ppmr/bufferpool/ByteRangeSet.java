package io.ppmr.bufferpool;

import java.util.Arrays;

/**
 * A set of byte offsets, kept as sorted ranges that neither touch nor overlap.
 *
 * <p>Not thread-safe: its owner guards it. Adding in ascending order takes constant time and allocates nothing.
 */
public final class ByteRangeSet {
    private static final int FIRST_RANGES = 4;

    private long[] starts = new long[FIRST_RANGES];
    private long[] ends = new long[FIRST_RANGES];
    private int count;

    public int rangeCount() {
        return count;
    }

    public long start(int range) {
        return starts[range];
    }

    public long end(int range) {
        return ends[range];
    }

    /** Adds the offsets from {@code start} up to, not including, {@code end}. */
    public void add(long start, long end) {
        if (start >= end) {
            return;
        }
        int first = firstEndingAtOrAfter(start);
        int last = first;
        long newStart = start;
        long newEnd = end;
        while (last < count && starts[last] <= end) {
            newStart = Math.min(newStart, starts[last]);
            newEnd = Math.max(newEnd, ends[last]);
            last++;
        }
        replace(first, last, newStart, newEnd);
    }

    /** Removes the offsets from {@code start} up to, not including, {@code end}. */
    public void remove(long start, long end) {
        int first = firstEndingAfter(start);
        if (start >= end || first == count || starts[first] >= end) {
            return;
        }
        long headStart = starts[first];
        int last = first;
        long tailEnd = start;
        while (last < count && starts[last] < end) {
            tailEnd = ends[last];
            last++;
        }
        delete(first, last);
        if (tailEnd > end) {
            replace(first, first, end, tailEnd);
        }
        if (headStart < start) {
            replace(first, first, headStart, start);
        }
        shrink();
    }

    /** Removes every offset from {@code size} on. */
    public void truncate(long size) {
        while (count > 0 && starts[count - 1] >= size) {
            count--;
        }
        if (count > 0 && ends[count - 1] > size) {
            ends[count - 1] = size;
        }
        shrink();
    }

    /**
     * Returns the end of the run of offsets that starts at {@code offset}, or {@code offset} itself if it is not in the
     * set.
     */
    public long coveredTo(long offset) {
        int range = firstEndingAfter(offset);
        return range < count && starts[range] <= offset ? ends[range] : offset;
    }

    /** The first offset from {@code offset} on that is in the set, or {@link Long#MAX_VALUE}. */
    public long nextFrom(long offset) {
        int range = firstEndingAfter(offset);
        return range < count ? Math.max(offset, starts[range]) : Long.MAX_VALUE;
    }

    private int firstEndingAtOrAfter(long offset) {
        if (count == 0 || ends[count - 1] < offset) {
            return count;
        }
        int found = Arrays.binarySearch(ends, 0, count, offset);
        return found >= 0 ? found : -found - 1;
    }

    private int firstEndingAfter(long offset) {
        int range = firstEndingAtOrAfter(offset);
        return range < count && ends[range] == offset ? range + 1 : range;
    }

    /** Releases memory that is no longer needed: the former size of a set does not predict its later size. */
    private void shrink() {
        if (starts.length > FIRST_RANGES && count < starts.length / 4) {
            int length = Math.max(FIRST_RANGES, count * 2);
            starts = Arrays.copyOf(starts, length);
            ends = Arrays.copyOf(ends, length);
        }
    }

    private void delete(int first, int last) {
        System.arraycopy(starts, last, starts, first, count - last);
        System.arraycopy(ends, last, ends, first, count - last);
        count -= last - first;
    }

    /** Replaces the ranges from {@code first} up to, not including, {@code last} by one range. */
    private void replace(int first, int last, long start, long end) {
        int growth = 1 - (last - first);
        if (count + growth > starts.length) {
            starts = Arrays.copyOf(starts, count * 2);
            ends = Arrays.copyOf(ends, count * 2);
        }
        if (growth != 0) {
            System.arraycopy(starts, last, starts, last + growth, count - last);
            System.arraycopy(ends, last, ends, last + growth, count - last);
            count += growth;
        }
        starts[first] = start;
        ends[first] = end;
    }
}
