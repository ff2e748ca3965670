package io.ppmr.bufferpool;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.BufferUtil;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * One aligned off-heap region, split into equal chunks (paper 1, section IV: the buffer pool of a node).
 *
 * <p>Any thread may claim and release chunks. Both operations allocate nothing and take no lock. The free chunks are a
 * stack whose head carries a counter, which detects a chunk that was popped and pushed in between (ABA). The stack
 * returns the chunk that was released last, whose memory is still in the cache. A thread that must wait for a chunk
 * uses {@link FairClaims}.
 *
 * <p>Between claim and release a chunk has one owner, and only that owner accesses its memory and its {@link #buffer}.
 * The pool exists as long as its service. Its memory is touched once at the start, so that no migration causes a page
 * fault.
 */
public final class BufferPool {
    /** Result of {@link #tryClaim} when every chunk is in use. */
    public static final int NONE = -1;

    private static final int PAGE_BYTES = 4096;
    private static final VarHandle STATE = MethodHandles.arrayElementVarHandle(ChunkState[].class);
    private static final long INDEX_MASK = 0xFFFF_FFFFL;

    private final PoolGeometry geometry;
    private final ByteBuffer region;
    private final UnsafeBuffer view;
    private final long baseAddress;
    private final ByteBuffer[] buffers;
    private final ChunkState[] states;
    private final int[] nextFree;
    private final AtomicLong freeHead = new AtomicLong();
    /** Per chunk, accessed by its owner: the chunk was claimed since it was last zeroed, so it may hold old bytes. */
    private final boolean[] used;

    public BufferPool(PoolGeometry geometry) {
        this.geometry = geometry;
        int chunks = geometry.chunkCount();
        region = BufferUtil.allocateDirectAligned((int) geometry.poolBytes(), PAGE_BYTES);
        view = new UnsafeBuffer(region);
        view.setMemory(0, view.capacity(), (byte) 0);
        baseAddress = view.addressOffset();
        buffers = new ByteBuffer[chunks];
        states = new ChunkState[chunks];
        Arrays.fill(states, ChunkState.FREE);
        nextFree = new int[chunks];
        used = new boolean[chunks];
        for (int chunk = 0; chunk < chunks; chunk++) {
            buffers[chunk] = region.slice(chunk * geometry.chunkBytes(), geometry.chunkBytes());
            nextFree[chunk] = chunk + 1 < chunks ? chunk + 1 : NONE;
        }
        freeHead.set(0);
    }

    public PoolGeometry geometry() {
        return geometry;
    }

    /** The whole region, for a transport that registers it. */
    public ByteBuffer region() {
        return region;
    }

    /** Native address of the region's first byte. */
    public long baseAddress() {
        return baseAddress;
    }

    /** Native address of a chunk's first byte. */
    public long address(int chunk) {
        return baseAddress + (long) chunk * geometry.chunkBytes();
    }

    /** The chunk's memory as a buffer, whose position and limit belong to the chunk's owner. */
    public ByteBuffer buffer(int chunk) {
        return buffers[chunk];
    }

    public ChunkState state(int chunk) {
        return (ChunkState) STATE.getVolatile(states, chunk);
    }

    /** Claims a free chunk, which becomes FILLING, or returns {@link #NONE}. */
    public int tryClaim() {
        while (true) {
            long head = freeHead.get();
            int chunk = (int) head;
            if (chunk == NONE) {
                return NONE;
            }
            long next = nextHead(head, nextFree[chunk]);
            if (freeHead.compareAndSet(head, next)) {
                step(chunk, ChunkState.FREE, ChunkState.FILLING);
                used[chunk] = true;
                return chunk;
            }
        }
    }

    /** FILLING to READY: the chunk is full, or will receive no more bytes. */
    public void markReady(int chunk) {
        step(chunk, ChunkState.FILLING, ChunkState.READY);
    }

    /** READY to FREE: the chunk's bytes reached their destination. */
    public void release(int chunk) {
        step(chunk, ChunkState.READY, ChunkState.FREE);
        push(chunk);
    }

    /** FILLING to FREE: the owner did not use the chunk. */
    public void releaseUnused(int chunk) {
        step(chunk, ChunkState.FILLING, ChunkState.FREE);
        push(chunk);
    }

    /**
     * Zeroes each free chunk that was claimed since it was last zeroed. Call this between two jobs, because a transport
     * may expose the whole pool to its peer during a session. The free chunks cannot be claimed in that time.
     *
     * @return the number of chunks that are not free and so keep their contents
     */
    public int wipe() {
        int[] free = new int[states.length];
        int count = 0;
        while (count < free.length) {
            long head = freeHead.get();
            int chunk = (int) head;
            if (chunk == NONE) {
                break;
            }
            if (freeHead.compareAndSet(head, nextHead(head, nextFree[chunk]))) {
                step(chunk, ChunkState.FREE, ChunkState.FILLING);
                free[count++] = chunk;
            }
        }
        // Released in reverse order, so that the next job claims the same chunks as this one did.
        for (int i = count - 1; i >= 0; i--) {
            int chunk = free[i];
            if (used[chunk]) {
                view.setMemory(chunk * geometry.chunkBytes(), geometry.chunkBytes(), (byte) 0);
                used[chunk] = false;
            }
            releaseUnused(chunk);
        }
        return states.length - count;
    }

    /**
     * The number of chunks that are free now, for gauges and tests. It is exact only while no thread claims or
     * releases.
     */
    public int freeChunks() {
        return chunks(ChunkState.FREE);
    }

    /** The number of chunks in a state, for gauges and tests. It is exact only while no thread claims or releases. */
    public int chunks(ChunkState state) {
        int count = 0;
        for (int chunk = 0; chunk < states.length; chunk++) {
            if (state(chunk) == state) {
                count++;
            }
        }
        return count;
    }

    private void push(int chunk) {
        long head;
        do {
            head = freeHead.get();
            nextFree[chunk] = (int) head;
        } while (!freeHead.compareAndSet(head, nextHead(head, chunk)));
    }

    private static long nextHead(long head, int chunk) {
        return ((head >>> 32) + 1) << 32 | (chunk & INDEX_MASK);
    }

    private void step(int chunk, ChunkState from, ChunkState to) {
        if (!STATE.compareAndSet(states, chunk, from, to)) {
            throw new IllegalStateException("chunk " + chunk + " is " + state(chunk) + ", so it cannot go from " + from
                    + " to " + to + ": it was released twice, or another owner has it");
        }
    }
}
