package io.ppmr.target.image;

import java.util.Arrays;
import java.util.function.Consumer;

/**
 * Maps the bytes of a file to receive slots: sorted, disjoint runs. A later write replaces an earlier one as soon as it
 * is advertised. So the order of writes is kept for any order of the arrivals.
 *
 * <p>Guarded by the file's lock. Counts the live bytes of each {@link ReceiveSlot} and reports the removal of its last
 * byte. Adding at the end, as a sequential writer does, takes constant time and allocates nothing.
 */
final class Extents {
    private final Consumer<ReceiveSlot> whenEmptied;
    private long[] starts = new long[8];
    private long[] ends = new long[8];
    private ReceiveSlot[] slots = new ReceiveSlot[8];
    private int count;

    /** @param whenEmptied called with a receive slot when none of its bytes belongs to the file */
    Extents(Consumer<ReceiveSlot> whenEmptied) {
        this.whenEmptied = whenEmptied;
    }

    int count() {
        return count;
    }

    long start(int extent) {
        return starts[extent];
    }

    long end(int extent) {
        return ends[extent];
    }

    ReceiveSlot slot(int extent) {
        return slots[extent];
    }

    /** Returns the extent that contains a byte, or -1. */
    int find(long offset) {
        int extent = firstEndingAfter(offset);
        return extent < count && starts[extent] <= offset ? extent : -1;
    }

    /** Returns the start of the first extent after {@code offset}, or {@link Long#MAX_VALUE}. */
    long nextStart(long offset) {
        int extent = firstEndingAfter(offset);
        return extent < count ? Math.max(offset, starts[extent]) : Long.MAX_VALUE;
    }

    /** Returns the end of the present bytes from {@code offset} on, in any slots; {@code offset} if there is none. */
    long coveredTo(long offset) {
        long to = offset;
        for (int extent = firstEndingAfter(offset); extent < count && starts[extent] <= to; extent++) {
            to = ends[extent];
        }
        return to;
    }

    /** Assigns these bytes to the receive slot. */
    void put(long start, long end, ReceiveSlot slot) {
        remove(start, end);
        int at = firstEndingAfter(start);
        boolean touchesPrevious = at > 0 && ends[at - 1] == start && slots[at - 1] == slot;
        if (touchesPrevious) {
            ends[at - 1] = end;
        } else {
            insert(at, start, end, slot);
        }
        slot.changeLiveBytes(end - start);
    }

    /** Removes these bytes. */
    void remove(long start, long end) {
        int extent = firstEndingAfter(start);
        while (extent < count && starts[extent] < end) {
            long cutStart = Math.max(start, starts[extent]);
            long cutEnd = Math.min(end, ends[extent]);
            extent = cut(extent, cutStart, cutEnd);
        }
    }

    /**
     * Returns the first extent of a receive slot that starts before {@code end} and ends after {@code start}, or -1.
     */
    int next(ReceiveSlot slot, long start, long end) {
        int extent = firstEndingAfter(start);
        while (extent < count && starts[extent] < end && slots[extent] != slot) {
            extent++;
        }
        return extent < count && starts[extent] < end ? extent : -1;
    }

    /** Reassigns the bytes of one receive slot, which all lie in this window, to another one. */
    void move(ReceiveSlot from, ReceiveSlot to, long windowStart, long windowEnd) {
        for (int extent = firstEndingAfter(windowStart); extent < count && starts[extent] < windowEnd; extent++) {
            if (slots[extent] == from) {
                slots[extent] = to;
                long bytes = ends[extent] - starts[extent];
                from.changeLiveBytes(-bytes);
                to.changeLiveBytes(bytes);
            }
        }
    }

    /** Removes a part of one extent and returns the index of the extent after the removed part. */
    private int cut(int extent, long cutStart, long cutEnd) {
        ReceiveSlot slot = slots[extent];
        boolean keepsHead = starts[extent] < cutStart;
        boolean keepsTail = cutEnd < ends[extent];
        int next;
        if (keepsHead && keepsTail) {
            insert(extent + 1, cutEnd, ends[extent], slot);
            ends[extent] = cutStart;
            next = extent + 1;
        } else if (keepsHead) {
            ends[extent] = cutStart;
            next = extent + 1;
        } else if (keepsTail) {
            starts[extent] = cutEnd;
            next = extent;
        } else {
            delete(extent);
            next = extent;
        }
        if (slot.changeLiveBytes(cutStart - cutEnd) == 0) {
            whenEmptied.accept(slot);
        }
        return next;
    }

    private int firstEndingAfter(long offset) {
        if (count == 0 || ends[count - 1] <= offset) {
            return count;
        }
        int found = Arrays.binarySearch(ends, 0, count, offset);
        return found >= 0 ? found + 1 : -found - 1;
    }

    private void insert(int at, long start, long end, ReceiveSlot slot) {
        if (count == starts.length) {
            starts = Arrays.copyOf(starts, count * 2);
            ends = Arrays.copyOf(ends, count * 2);
            slots = Arrays.copyOf(slots, count * 2);
        }
        System.arraycopy(starts, at, starts, at + 1, count - at);
        System.arraycopy(ends, at, ends, at + 1, count - at);
        System.arraycopy(slots, at, slots, at + 1, count - at);
        starts[at] = start;
        ends[at] = end;
        slots[at] = slot;
        count++;
    }

    private void delete(int at) {
        count--;
        System.arraycopy(starts, at + 1, starts, at, count - at);
        System.arraycopy(ends, at + 1, ends, at, count - at);
        System.arraycopy(slots, at + 1, slots, at, count - at);
        slots[count] = null;
    }
}
