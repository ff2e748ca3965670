package io.ppmr.source.keep;

import java.nio.ByteBuffer;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.BufferUtil;
import org.agrona.UnsafeApi;

/**
 * The memory between those who write images and the thread that writes their copy: blocks that go round between the
 * free and the filled ones. Allocated at once, for one attempt of a migration that keeps a copy, and freed when both
 * sides have let go of it: a thread may hang in a file of the copy for longer than the migration lasts.
 */
final class CopyBuffer {
    /** The most that the kernel hands over in one write. */
    static final int BLOCK_BYTES = 128 << 10;

    private static final int SIDES = 2;

    /** One change of one file. Owned by whoever has taken it out of a queue. */
    static final class Block {
        private final ByteBuffer bytes;
        private final long address;
        private CopiedFile file;
        private long offset;
        private boolean truncates;

        Block(ByteBuffer bytes) {
            this.bytes = bytes;
            this.address = BufferUtil.address(bytes);
        }

        void write(CopiedFile to, long fromAddress, int lengthBytes, long atOffset) {
            UnsafeApi.copyMemory(fromAddress, address, lengthBytes);
            bytes.limit(lengthBytes).position(0);
            file = to;
            offset = atOffset;
            truncates = false;
        }

        void truncate(CopiedFile which, long sizeBytes) {
            file = which;
            offset = sizeBytes;
            truncates = true;
        }

        CopiedFile file() {
            return file;
        }

        /** Where its bytes belong, or the new size. */
        long offset() {
            return offset;
        }

        boolean truncates() {
            return truncates;
        }

        ByteBuffer bytes() {
            return bytes;
        }
    }

    /** Wakes the thread that takes filled blocks; is no change. */
    private final Block wakeUp;

    private final ByteBuffer region;
    private final BlockingQueue<Block> free;
    private final BlockingQueue<Block> filled;
    private final AtomicLong patienceNs;
    private final AtomicInteger holders = new AtomicInteger(SIDES);

    /** @param patienceNs how long writers may be held up in all */
    CopyBuffer(int bufferBytes, long patienceNs) {
        int blocks = Math.max(1, bufferBytes / BLOCK_BYTES);
        this.patienceNs = new AtomicLong(patienceNs);
        // No aligned slice of another: only a whole buffer can be freed.
        region = ByteBuffer.allocateDirect(blocks * BLOCK_BYTES);
        free = new ArrayBlockingQueue<>(blocks);
        // One place more, for the block that only wakes.
        filled = new ArrayBlockingQueue<>(blocks + 1);
        for (int block = 0; block < blocks; block++) {
            free.add(new Block(region.slice(block * BLOCK_BYTES, BLOCK_BYTES)));
        }
        wakeUp = new Block(region.slice(0, 0));
    }

    /** A free block; null if there is none and the writers have been held up for as long as they may be. */
    Block take() throws InterruptedException {
        Block block = free.poll();
        if (block != null) {
            return block;
        }
        long startNs = System.nanoTime();
        block = free.poll(Math.max(0, patienceNs.get()), TimeUnit.NANOSECONDS);
        patienceNs.addAndGet(startNs - System.nanoTime());
        return block;
    }

    void fill(Block block) {
        filled.add(block);
    }

    /** Wakes whoever waits in {@link #next}. */
    void wake() {
        filled.offer(wakeUp);
    }

    /** The next change; null after {@link #wake}. */
    Block next() throws InterruptedException {
        Block block = filled.take();
        return block == wakeUp ? null : block;
    }

    boolean isDrained() {
        return filled.isEmpty();
    }

    void giveBack(Block block) {
        free.add(block);
    }

    /** One side will not touch it any more; the last frees it. */
    void release() {
        if (holders.decrementAndGet() == 0) {
            BufferUtil.free(region);
        }
    }
}
