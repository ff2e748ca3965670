package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.target.image.IndexMemory.Block;
import java.util.function.IntConsumer;
import org.agrona.UnsafeApi;

/**
 * Knows where the windows of one file lie that rest in staging, and which of their bytes belong to the file: 12 bytes
 * off the heap for each window, and as much again for each run of a window that has several.
 *
 * <p>A tree by the window's number, 64 wide at each level, so that it takes the same in whatever order windows come; an
 * empty part of it is given back. Guarded by the file's lock; a lookup allocates nothing and takes no lock.
 *
 * <pre>
 *  leaf: 64 times            run of a window that has several     node: 64 times
 *  +-----------+------+----+     +------+----+------+             +-------+
 *  | place + 1 | from | to |     | from | to | next |             | below |
 *  +-----------+------+----+     +------+----+------+             +-------+
 * </pre>
 *
 * Words of 32 bits. {@code from} and {@code to} are offsets in the window; in a leaf, a {@code from} of -1 says that
 * {@code to} is the first of several runs.
 */
final class WindowIndex {
    static final int FAN_OUT = 64;
    static final int ENTRY_WORDS = 3;
    private static final int FAN_OUT_BITS = 6;
    private static final int ENTRY_BYTES = ENTRY_WORDS * IndexMemory.WORD_BYTES;
    private static final int FROM_OFFSET = 4;
    private static final int TO_OFFSET = 8;
    private static final int RUN_TO_OFFSET = 4;
    private static final int RUN_NEXT_OFFSET = 8;
    private static final int SEVERAL = -1;
    private static final int NONE = IndexMemory.NONE;
    private static final long NO_WINDOW = -1;
    private static final long NO_ENTRY = 0;

    private final IndexMemory memory;
    private final PoolGeometry geometry;
    private final IntConsumer whenEmptied;
    private int root = NONE;
    /** The number of levels of nodes above the leaves. */
    private int levels;

    private int foundPlace;
    private int foundFrom;
    private int foundTo;

    /** @param whenEmptied told of a place none of whose bytes belongs to the file any more */
    WindowIndex(IndexMemory memory, PoolGeometry geometry, IntConsumer whenEmptied) {
        this.memory = memory;
        this.geometry = geometry;
        this.whenEmptied = whenEmptied;
    }

    boolean has(long window) {
        return entry(window) != NO_ENTRY;
    }

    /** Looks for the run that holds a byte; if there is one, {@link #foundPlace} and {@link #foundBytes} tell of it. */
    boolean find(long offset) {
        long window = geometry.windowOf(offset);
        long entry = entry(window);
        return entry != NO_ENTRY && findRun(entry, geometry.offsetInWindow(offset)) && foundFrom <= offsetIn(offset);
    }

    int foundPlace() {
        return foundPlace;
    }

    /** Returns how many bytes of the run lie at and behind the offset that was looked for. */
    int foundBytes(long offset) {
        return foundTo - offsetIn(offset);
    }

    /** Gives the start of the first run behind {@code offset}, or {@link Long#MAX_VALUE}. */
    long nextStart(long offset) {
        long window = next(geometry.windowOf(offset));
        if (window == geometry.windowOf(offset)) {
            if (findRun(entry(window), offsetIn(offset))) {
                return startOf(window) + Math.max(foundFrom, offsetIn(offset));
            }
            window = next(window + 1);
        }
        if (window == NO_WINDOW) {
            return Long.MAX_VALUE;
        }
        findRun(entry(window), 0);
        return startOf(window) + foundFrom;
    }

    /**
     * Takes over what extents hold of a window, all of it at one place.
     *
     * @return false if there is no memory for it; nothing is changed then
     */
    boolean put(long window, int place, Extents extents) {
        long entry = entryFor(window);
        if (entry == NO_ENTRY) {
            prune(window);
            return false;
        }
        long windowStart = startOf(window);
        long windowEnd = windowStart + geometry.chunkBytes();
        int runs = 0;
        int first = NONE;
        long last = NO_ENTRY;
        long from = extents.nextStart(windowStart);
        long firstFrom = from;
        long firstTo = 0;
        while (from < windowEnd) {
            long to = Math.min(extents.coveredTo(from), windowEnd);
            runs++;
            if (runs == 1) {
                firstTo = to;
            }
            if (runs == 2) {
                first = claimRun((int) (firstFrom - windowStart), (int) (firstTo - windowStart));
                last = first == NONE ? NO_ENTRY : memory.address(first);
            }
            if (runs >= 2) {
                int run = first == NONE ? NONE : claimRun((int) (from - windowStart), (int) (to - windowStart));
                if (run == NONE) {
                    releaseRuns(first);
                    prune(window);
                    return false;
                }
                UnsafeApi.putInt(last + RUN_NEXT_OFFSET, run);
                last = memory.address(run);
            }
            from = extents.nextStart(to);
        }
        UnsafeApi.putInt(entry, place + 1);
        UnsafeApi.putInt(entry + FROM_OFFSET, runs == 1 ? (int) (firstFrom - windowStart) : SEVERAL);
        UnsafeApi.putInt(entry + TO_OFFSET, runs == 1 ? (int) (firstTo - windowStart) : first);
        return true;
    }

    /** The place of a window, which it must have. */
    int place(long window) {
        return UnsafeApi.getInt(entry(window)) - 1;
    }

    /** Gives what it knows of a window back to extents, as a receive slot's. */
    void take(long window, ReceiveSlot slot, Extents extents) {
        long entry = entry(window);
        long windowStart = startOf(window);
        int from = UnsafeApi.getInt(entry + FROM_OFFSET);
        int to = UnsafeApi.getInt(entry + TO_OFFSET);
        if (from == SEVERAL) {
            for (int run = to; run != NONE; run = UnsafeApi.getInt(memory.address(run) + RUN_NEXT_OFFSET)) {
                from = UnsafeApi.getInt(memory.address(run));
                int runTo = UnsafeApi.getInt(memory.address(run) + RUN_TO_OFFSET);
                extents.put(windowStart + from, windowStart + runTo, slot);
            }
            releaseRuns(to);
        } else {
            extents.put(windowStart + from, windowStart + to, slot);
        }
        UnsafeApi.putInt(entry, 0);
        prune(window);
    }

    /**
     * These bytes are nobody's any more.
     *
     * @return false if there is no memory to note a hole in the middle of a run; that window is left as it is then, and
     *     those behind it
     */
    boolean remove(long start, long end) {
        long window = start < end ? next(geometry.windowOf(start)) : NO_WINDOW;
        while (window != NO_WINDOW && startOf(window) < end) {
            long windowStart = startOf(window);
            int from = (int) Math.max(0, start - windowStart);
            int to = (int) Math.min(geometry.chunkBytes(), end - windowStart);
            if (!cut(window, from, to)) {
                return false;
            }
            window = next(window + 1);
        }
        return true;
    }

    // ---- one window --------------------------------------------------------------------------------------------

    private long startOf(long window) {
        return window * geometry.chunkBytes();
    }

    private int offsetIn(long offset) {
        return geometry.offsetInWindow(offset);
    }

    /** The first run of an entry that ends behind an offset in the window. */
    private boolean findRun(long entry, int offset) {
        foundPlace = UnsafeApi.getInt(entry) - 1;
        foundFrom = UnsafeApi.getInt(entry + FROM_OFFSET);
        foundTo = UnsafeApi.getInt(entry + TO_OFFSET);
        if (foundFrom != SEVERAL) {
            return foundTo > offset;
        }
        for (int run = foundTo; run != NONE; ) {
            long address = memory.address(run);
            foundFrom = UnsafeApi.getInt(address);
            foundTo = UnsafeApi.getInt(address + RUN_TO_OFFSET);
            if (foundTo > offset) {
                return true;
            }
            run = UnsafeApi.getInt(address + RUN_NEXT_OFFSET);
        }
        return false;
    }

    private boolean cut(long window, int cutFrom, int cutTo) {
        long entry = entry(window);
        int from = UnsafeApi.getInt(entry + FROM_OFFSET);
        if (from == SEVERAL) {
            return cutSeveral(window, entry, cutFrom, cutTo);
        }
        int to = UnsafeApi.getInt(entry + TO_OFFSET);
        if (cutFrom >= to || cutTo <= from) {
            return true;
        }
        if (cutFrom <= from && cutTo >= to) {
            empty(window, entry);
        } else if (cutFrom <= from) {
            UnsafeApi.putInt(entry + FROM_OFFSET, cutTo);
        } else if (cutTo >= to) {
            UnsafeApi.putInt(entry + TO_OFFSET, cutFrom);
        } else {
            int tail = claimRun(cutTo, to);
            int head = tail == NONE ? NONE : claimRun(from, cutFrom);
            if (head == NONE) {
                releaseRuns(tail);
                return false;
            }
            UnsafeApi.putInt(memory.address(head) + RUN_NEXT_OFFSET, tail);
            UnsafeApi.putInt(entry + FROM_OFFSET, SEVERAL);
            UnsafeApi.putInt(entry + TO_OFFSET, head);
        }
        return true;
    }

    private boolean cutSeveral(long window, long entry, int cutFrom, int cutTo) {
        // The word that names the run which is looked at: in the entry, or in the run before it.
        long link = entry + TO_OFFSET;
        for (int run = UnsafeApi.getInt(link); run != NONE; run = UnsafeApi.getInt(link)) {
            long address = memory.address(run);
            int from = UnsafeApi.getInt(address);
            int to = UnsafeApi.getInt(address + RUN_TO_OFFSET);
            int next = UnsafeApi.getInt(address + RUN_NEXT_OFFSET);
            if (cutTo <= from) {
                break;
            }
            if (cutFrom <= from && cutTo >= to) {
                UnsafeApi.putInt(link, next);
                memory.release(run, Block.RUN);
                continue;
            }
            if (cutFrom > from && cutTo < to) {
                int tail = claimRun(cutTo, to);
                if (tail == NONE) {
                    return false;
                }
                UnsafeApi.putInt(memory.address(tail) + RUN_NEXT_OFFSET, next);
                UnsafeApi.putInt(address + RUN_NEXT_OFFSET, tail);
                UnsafeApi.putInt(address + RUN_TO_OFFSET, cutFrom);
            } else if (cutFrom > from && cutFrom < to) {
                UnsafeApi.putInt(address + RUN_TO_OFFSET, cutFrom);
            } else if (cutFrom <= from) {
                UnsafeApi.putInt(address, cutTo);
            }
            link = address + RUN_NEXT_OFFSET;
        }
        int first = UnsafeApi.getInt(entry + TO_OFFSET);
        if (first == NONE) {
            empty(window, entry);
        } else if (UnsafeApi.getInt(memory.address(first) + RUN_NEXT_OFFSET) == NONE) {
            UnsafeApi.putInt(entry + FROM_OFFSET, UnsafeApi.getInt(memory.address(first)));
            UnsafeApi.putInt(entry + TO_OFFSET, UnsafeApi.getInt(memory.address(first) + RUN_TO_OFFSET));
            memory.release(first, Block.RUN);
        }
        return true;
    }

    private void empty(long window, long entry) {
        int place = UnsafeApi.getInt(entry) - 1;
        UnsafeApi.putInt(entry, 0);
        prune(window);
        whenEmptied.accept(place);
    }

    private int claimRun(int from, int to) {
        int run = memory.claim(Block.RUN);
        if (run != NONE) {
            UnsafeApi.putInt(memory.address(run), from);
            UnsafeApi.putInt(memory.address(run) + RUN_TO_OFFSET, to);
        }
        return run;
    }

    private void releaseRuns(int first) {
        for (int run = first; run != NONE; ) {
            int next = UnsafeApi.getInt(memory.address(run) + RUN_NEXT_OFFSET);
            memory.release(run, Block.RUN);
            run = next;
        }
    }

    // ---- the tree ----------------------------------------------------------------------------------------------

    /** The native address of a window's entry, or {@link #NO_ENTRY}. */
    private long entry(long window) {
        if (root == NONE || isBeyond(window)) {
            return NO_ENTRY;
        }
        int node = root;
        for (int level = levels; level > 0; level--) {
            node = UnsafeApi.getInt(below(node, window, level));
            if (node == NONE) {
                return NO_ENTRY;
            }
        }
        long entry = entryIn(node, (int) (window & (FAN_OUT - 1)));
        return UnsafeApi.getInt(entry) == 0 ? NO_ENTRY : entry;
    }

    /** The same, made if it is not there; {@link #NO_ENTRY} if there is no memory for it. */
    private long entryFor(long window) {
        if (root == NONE) {
            levels = 0;
            while (isBeyond(window)) {
                levels++;
            }
            root = claimAt(levels);
        }
        while (root != NONE && isBeyond(window)) {
            int above = memory.claim(Block.NODE);
            if (above == NONE) {
                return NO_ENTRY;
            }
            UnsafeApi.putInt(memory.address(above), root);
            root = above;
            levels++;
        }
        int node = root;
        for (int level = levels; level > 0 && node != NONE; level--) {
            long below = below(node, window, level);
            node = UnsafeApi.getInt(below);
            if (node == NONE) {
                node = claimAt(level - 1);
                UnsafeApi.putInt(below, node);
            }
        }
        return node == NONE ? NO_ENTRY : entryIn(node, (int) (window & (FAN_OUT - 1)));
    }

    private int claimAt(int level) {
        return memory.claim(level == 0 ? Block.LEAF : Block.NODE);
    }

    private boolean isBeyond(long window) {
        return window >>> (FAN_OUT_BITS * (levels + 1)) != 0;
    }

    /** The address of the word of a node that names what lies below it on the way to a window. */
    private long below(int node, long window, int level) {
        long at = (window >>> (FAN_OUT_BITS * level)) & (FAN_OUT - 1);
        return memory.address(node) + at * IndexMemory.WORD_BYTES;
    }

    private long entryIn(int leaf, int at) {
        return memory.address(leaf) + (long) at * ENTRY_BYTES;
    }

    /** The first window from this one on that has an entry, or {@link #NO_WINDOW}. */
    private long next(long window) {
        return root == NONE || isBeyond(window) ? NO_WINDOW : next(root, levels, window);
    }

    /** The same in a part of the tree, counted from where it begins. */
    private long next(int node, int level, long window) {
        int shift = FAN_OUT_BITS * level;
        int first = (int) (window >>> shift);
        for (int at = first; at < FAN_OUT; at++) {
            if (level == 0) {
                if (UnsafeApi.getInt(entryIn(node, at)) != 0) {
                    return at;
                }
                continue;
            }
            int below = UnsafeApi.getInt(memory.address(node) + (long) at * IndexMemory.WORD_BYTES);
            long found =
                    below == NONE ? NO_WINDOW : next(below, level - 1, at == first ? window & ((1L << shift) - 1) : 0);
            if (found != NO_WINDOW) {
                return ((long) at << shift) + found;
            }
        }
        return NO_WINDOW;
    }

    /** Gives back what is empty on the way to a window. */
    private void prune(long window) {
        if (root != NONE && !isBeyond(window)) {
            root = prune(root, levels, window);
        }
    }

    private int prune(int node, int level, long window) {
        if (level > 0) {
            long below = below(node, window, level);
            int child = UnsafeApi.getInt(below);
            if (child != NONE) {
                child = prune(child, level - 1, window);
                UnsafeApi.putInt(below, child);
            }
            if (child != NONE) {
                return node;
            }
        }
        if (!isEmpty(node, level)) {
            return node;
        }
        memory.release(node, level == 0 ? Block.LEAF : Block.NODE);
        return NONE;
    }

    private boolean isEmpty(int node, int level) {
        long address = memory.address(node);
        int stepBytes = level == 0 ? ENTRY_BYTES : IndexMemory.WORD_BYTES;
        for (int at = 0; at < FAN_OUT; at++) {
            if (UnsafeApi.getInt(address + (long) at * stepBytes) != 0) {
                return false;
            }
        }
        return true;
    }
}
