package io.ppmr.target.image;

import java.util.Arrays;
import org.agrona.UnsafeApi;

/**
 * A set of pages of one file. Each page is a bit outside of the heap, in leaves that cover 32 MiB of the file each. A
 * leaf exists only while one of its bits is set, so a sparse file needs little memory. Guarded by the file's lock. A
 * lookup allocates nothing.
 */
final class PageMap {
    static final int PAGE_BYTES = 4096;
    static final int LEAF_BYTES = 1024;
    static final int LEAF_PAGES = LEAF_BYTES * Byte.SIZE;
    private static final int LEAF_SHIFT = 13;
    private static final int PAGES_A_WORD = Long.SIZE;
    private static final int LEAF_WORDS = LEAF_PAGES / PAGES_A_WORD;
    private static final long NO_PAGE = Long.MAX_VALUE;
    private static final int FIRST_LEAVES = 4;

    private final Staging staging;
    // The leaves in the order of their pages: number, address, and number of set bits of each.
    private long[] numbers = new long[FIRST_LEAVES];
    private long[] addresses = new long[FIRST_LEAVES];
    private int[] setBits = new int[FIRST_LEAVES];
    private int leaves;

    /** @param staging limits the leaves of all files together */
    PageMap(Staging staging) {
        this.staging = staging;
    }

    boolean has(long page) {
        int leaf = firstAtOrAfter(page >> LEAF_SHIFT);
        return leaf < leaves && numbers[leaf] == page >> LEAF_SHIFT && ((word(leaf, wordOf(page)) >>> page) & 1) != 0;
    }

    /**
     * Adds the pages from {@code from} up to, not including, {@code to}.
     *
     * @return how many of them were not in the set
     */
    long add(long from, long to) throws ImageException {
        long added = 0;
        for (long page = from; page < to; ) {
            int leaf = leafFor(page >> LEAF_SHIFT);
            long end = Math.min(to, (numbers[leaf] + 1) << LEAF_SHIFT);
            int before = setBits[leaf];
            change(leaf, page, end, true);
            added += setBits[leaf] - before;
            page = end;
        }
        return added;
    }

    /**
     * Removes the pages from {@code from} up to, not including, {@code to}.
     *
     * @return how many of them were in the set
     */
    long remove(long from, long to) {
        long removed = 0;
        int leaf = firstAtOrAfter(from >> LEAF_SHIFT);
        // Each remaining leaf moves once, to the position after the previous remaining one.
        int kept = leaf;
        while (leaf < leaves && (numbers[leaf] << LEAF_SHIFT) < to) {
            long start = Math.max(from, numbers[leaf] << LEAF_SHIFT);
            long end = Math.min(to, (numbers[leaf] + 1) << LEAF_SHIFT);
            int before = setBits[leaf];
            change(leaf, start, end, false);
            removed += before - setBits[leaf];
            if (setBits[leaf] == 0) {
                UnsafeApi.freeMemory(addresses[leaf]);
                staging.releaseLeaf();
            } else {
                numbers[kept] = numbers[leaf];
                addresses[kept] = addresses[leaf];
                setBits[kept] = setBits[leaf];
                kept++;
            }
            leaf++;
        }
        if (kept < leaf) {
            move(leaf, kept);
            leaves -= leaf - kept;
            shrink();
        }
        return removed;
    }

    boolean isEmpty() {
        return leaves == 0;
    }

    /** Returns the first page of the set from {@code page} on, or {@link Long#MAX_VALUE}. */
    long nextIn(long page) {
        for (int leaf = firstAtOrAfter(page >> LEAF_SHIFT); leaf < leaves; leaf++) {
            long start = Math.max(page, numbers[leaf] << LEAF_SHIFT);
            long found = scan(leaf, start, true);
            if (found != NO_PAGE) {
                return found;
            }
        }
        return NO_PAGE;
    }

    /** Returns the first page from {@code page} on that is not in the set, or one after {@code limit}. */
    long nextOut(long page, long limit) {
        long at = page;
        int leaf = firstAtOrAfter(at >> LEAF_SHIFT);
        while (at < limit && leaf < leaves && numbers[leaf] == at >> LEAF_SHIFT) {
            long found = scan(leaf, at, false);
            if (found != NO_PAGE) {
                return found;
            }
            at = (numbers[leaf] + 1) << LEAF_SHIFT;
            leaf++;
        }
        return at;
    }

    // ---- one leaf ---------------------------------------------------------------------------------------------

    private static int wordOf(long page) {
        return (int) (page & (LEAF_PAGES - 1)) / PAGES_A_WORD;
    }

    private long word(int leaf, int word) {
        return UnsafeApi.getLong(addresses[leaf] + (long) word * Long.BYTES);
    }

    /** Sets or clears the bits of pages that all lie in one leaf. */
    private void change(int leaf, long from, long to, boolean set) {
        for (long page = from; page < to; ) {
            int word = wordOf(page);
            int inWord = (int) Math.min(to - page, PAGES_A_WORD - page % PAGES_A_WORD);
            long mask = (-1L >>> (PAGES_A_WORD - inWord)) << page;
            long before = word(leaf, word);
            long after = set ? before | mask : before & ~mask;
            UnsafeApi.putLong(addresses[leaf] + (long) word * Long.BYTES, after);
            setBits[leaf] += Long.bitCount(after) - Long.bitCount(before);
            page += inWord;
        }
    }

    /** Returns the first page from {@code page} on in its leaf whose bit has the wanted value. */
    private long scan(int leaf, long page, boolean wanted) {
        int word = wordOf(page);
        long bits = (wanted ? word(leaf, word) : ~word(leaf, word)) & (-1L << page);
        while (bits == 0) {
            word++;
            if (word == LEAF_WORDS) {
                return NO_PAGE;
            }
            bits = wanted ? word(leaf, word) : ~word(leaf, word);
        }
        return (numbers[leaf] << LEAF_SHIFT) + (long) word * PAGES_A_WORD + Long.numberOfTrailingZeros(bits);
    }

    // ---- the leaves -------------------------------------------------------------------------------------------

    private int firstAtOrAfter(long number) {
        if (leaves == 0 || numbers[leaves - 1] < number) {
            return leaves;
        }
        int found = Arrays.binarySearch(numbers, 0, leaves, number);
        return found >= 0 ? found : -found - 1;
    }

    private int leafFor(long number) throws ImageException {
        int leaf = firstAtOrAfter(number);
        if (leaf < leaves && numbers[leaf] == number) {
            return leaf;
        }
        staging.claimLeaf();
        if (leaves == numbers.length) {
            resize(leaves * 2);
        }
        move(leaf, leaf + 1);
        leaves++;
        numbers[leaf] = number;
        addresses[leaf] = UnsafeApi.allocateMemory(LEAF_BYTES);
        UnsafeApi.setMemory(addresses[leaf], LEAF_BYTES, (byte) 0);
        setBits[leaf] = 0;
        return leaf;
    }

    private void shrink() {
        if (numbers.length > FIRST_LEAVES && leaves < numbers.length / 4) {
            resize(Math.max(FIRST_LEAVES, leaves * 2));
        }
    }

    private void resize(int length) {
        numbers = Arrays.copyOf(numbers, length);
        addresses = Arrays.copyOf(addresses, length);
        setBits = Arrays.copyOf(setBits, length);
    }

    private void move(int from, int to) {
        System.arraycopy(numbers, from, numbers, to, leaves - from);
        System.arraycopy(addresses, from, addresses, to, leaves - from);
        System.arraycopy(setBits, from, setBits, to, leaves - from);
    }
}
