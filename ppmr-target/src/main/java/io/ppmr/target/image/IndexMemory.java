package io.ppmr.target.image;

import java.nio.ByteBuffer;
import org.agrona.BufferUtil;
import org.agrona.UnsafeApi;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Memory off the heap for the indices of one session's files ({@link WindowIndex}): blocks of three sizes, all made of
 * 32-bit words, out of slabs that are taken when they are needed and given back with the session.
 *
 * <p>A block is named by a number, which is smaller than an address and never 0. Any thread claims and releases; who
 * has a block guards what is in it. The lock is held for moments.
 */
final class IndexMemory implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(IndexMemory.class);

    /** Instead of a block: there is none. */
    static final int NONE = 0;

    static final int WORD_BYTES = 4;

    /** The use of a block, which is its size. */
    enum Block {
        /** One run of bytes of a window that has several. */
        RUN(0, 3),
        /** A node that leads to 64 parts of a file. */
        NODE(1, WindowIndex.FAN_OUT),
        /** 64 windows. */
        LEAF(2, WindowIndex.FAN_OUT * WindowIndex.ENTRY_WORDS);

        private final int freeList;
        private final int words;

        Block(int freeList, int words) {
            this.freeList = freeList;
            this.words = words;
        }
    }

    /** More than the next window can take: a leaf, a node at each level, and some runs. */
    private static final int RESERVE_WORDS = 4096;

    private static final int SLAB_SHIFT = 18;
    private static final int SLAB_WORDS = 1 << SLAB_SHIFT;
    private static final int SLAB_BYTES = SLAB_WORDS * WORD_BYTES;

    private final ByteBuffer[] slabs;
    private final long[] addresses;
    private final int[] firstFree = new int[Block.values().length];
    private int slabCount;
    private int slabUsedWords = SLAB_WORDS;
    private long usedBytes;

    /** @param limitBytes the most that it takes, in whole slabs of 1 MiB */
    IndexMemory(long limitBytes) {
        int most = (int) Math.min(limitBytes / SLAB_BYTES, Integer.MAX_VALUE / SLAB_WORDS);
        slabs = new ByteBuffer[most];
        addresses = new long[most];
    }

    /** Gives the most that the index of an image of this size takes, if it is written in whole windows in any order. */
    static long bytesFor(long imageBytes, int chunkBytes) {
        long windows = imageBytes / chunkBytes + 1;
        long leaves = windows / WindowIndex.FAN_OUT + 1;
        // A node for 64 leaves, one for 64 of those and so on: less than a word and a half a leaf.
        long words = leaves * Block.LEAF.words + leaves * 3 / 2 + RESERVE_WORDS;
        return (words * WORD_BYTES + SLAB_BYTES - 1) / SLAB_BYTES * SLAB_BYTES;
    }

    /** The most that it takes. */
    long limitBytes() {
        return (long) slabs.length * SLAB_BYTES;
    }

    /** Tells whether the next window has room, wherever in its file it is. */
    synchronized boolean hasRoom() {
        return slabCount < slabs.length
                || SLAB_WORDS - slabUsedWords >= RESERVE_WORDS
                || (firstFree[Block.LEAF.freeList] != NONE && firstFree[Block.NODE.freeList] != NONE);
    }

    /** Returns the bytes of the blocks that are in use. */
    synchronized long usedBytes() {
        return usedBytes;
    }

    /** Returns the bytes that have been taken from the node. */
    synchronized long takenBytes() {
        return (long) slabCount * SLAB_BYTES;
    }

    /** A block of zeros, or {@link #NONE} if there is no room for it. */
    synchronized int claim(Block block) {
        int claimed = firstFree[block.freeList];
        if (claimed != NONE) {
            firstFree[block.freeList] = UnsafeApi.getInt(address(claimed));
        } else if (slabUsedWords + block.words <= SLAB_WORDS || addSlab()) {
            claimed = ((slabCount - 1) << SLAB_SHIFT) + slabUsedWords;
            slabUsedWords += block.words;
        } else {
            return NONE;
        }
        usedBytes += (long) block.words * WORD_BYTES;
        UnsafeApi.setMemory(address(claimed), (long) block.words * WORD_BYTES, (byte) 0);
        return claimed;
    }

    synchronized void release(int claimed, Block block) {
        UnsafeApi.putInt(address(claimed), firstFree[block.freeList]);
        firstFree[block.freeList] = claimed;
        usedBytes -= (long) block.words * WORD_BYTES;
    }

    /** Native address of a block's first word; valid until {@link #close}. */
    long address(int claimed) {
        return addresses[claimed >>> SLAB_SHIFT] + (long) (claimed & (SLAB_WORDS - 1)) * WORD_BYTES;
    }

    private boolean addSlab() {
        if (slabCount == slabs.length) {
            return false;
        }
        ByteBuffer slab;
        try {
            slab = ByteBuffer.allocateDirect(SLAB_BYTES);
        } catch (OutOfMemoryError e) {
            LOG.warn("the index of staging cannot grow beyond {} bytes: {}", takenBytes(), e.getMessage());
            return false;
        }
        slabs[slabCount] = slab;
        addresses[slabCount] = BufferUtil.address(slab);
        // The first word of all is no block's, so that no block is number 0.
        slabUsedWords = slabCount == 0 ? 1 : 0;
        slabCount++;
        return true;
    }

    /** Frees all of it; nobody may use a block from before. */
    @Override
    public synchronized void close() {
        for (int slab = 0; slab < slabCount; slab++) {
            BufferUtil.free(slabs[slab]);
            slabs[slab] = null;
        }
        slabCount = 0;
        slabUsedWords = SLAB_WORDS;
        usedBytes = 0;
    }
}
