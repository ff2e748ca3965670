package io.ppmr.bufferpool;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.util.HashSet;
import java.util.Set;
import org.agrona.UnsafeApi;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class BufferPoolTest {
    private static final int CHUNK_BYTES = 16 * 1024;

    private final BufferPool pool = new BufferPool(new PoolGeometry(CHUNK_BYTES, 4));

    @Test
    void shouldClaimEveryChunkOnceAndThenNone() {
        Set<Integer> claimed = new HashSet<>();
        for (int i = 0; i < 4; i++) {
            claimed.add(pool.tryClaim());
        }
        assertEquals(Set.of(0, 1, 2, 3), claimed);
        assertEquals(BufferPool.NONE, pool.tryClaim());
        assertEquals(0, pool.freeChunks());
    }

    @Test
    void shouldClaimTheChunkThatWasReleasedLast() {
        int first = pool.tryClaim();
        int second = pool.tryClaim();
        pool.releaseUnused(first);
        pool.releaseUnused(second);
        assertEquals(second, pool.tryClaim());
        assertEquals(first, pool.tryClaim());
    }

    @Test
    void shouldThrowWhenAStepIsWrong() {
        int chunk = pool.tryClaim();
        refused(() -> pool.release(chunk), chunk, ChunkState.FILLING);
        pool.markReady(chunk);
        refused(() -> pool.markReady(chunk), chunk, ChunkState.READY);
        refused(() -> pool.releaseUnused(chunk), chunk, ChunkState.READY);
        pool.release(chunk);
        refused(() -> pool.release(chunk), chunk, ChunkState.FREE);
        refused(() -> pool.markReady(chunk), chunk, ChunkState.FREE);
        refused(() -> pool.releaseUnused(chunk), chunk, ChunkState.FREE);
        assertEquals(4, pool.freeChunks());
    }

    @Test
    void shouldZeroFreeChunksThatWereUsedAndNoOthersWhenWiped() {
        int given = pool.tryClaim();
        int held = pool.tryClaim();
        for (int chunk = 0; chunk < 4; chunk++) {
            // Unclaimed chunks are included: a wipe must not touch them, so that it costs only what was used.
            pool.buffer(chunk).put(0, (byte) 1).put(CHUNK_BYTES - 1, (byte) 1);
        }
        pool.releaseUnused(given);
        assertEquals(1, pool.wipe(), "chunks that are held");
        for (int chunk = 0; chunk < 4; chunk++) {
            int left = chunk == given ? 0 : 1;
            assertEquals(left, pool.buffer(chunk).get(0), "chunk " + chunk);
            assertEquals(left, pool.buffer(chunk).get(CHUNK_BYTES - 1), "chunk " + chunk);
        }
        assertEquals(ChunkState.FILLING, pool.state(held));
        pool.releaseUnused(held);
        assertEquals(0, pool.wipe());
        assertEquals(0, pool.buffer(held).get(0));
    }

    @Test
    void shouldClaimTheSameChunksAfterAWipeAsBefore() {
        int first = pool.tryClaim();
        int second = pool.tryClaim();
        pool.releaseUnused(first);
        pool.releaseUnused(second);
        assertEquals(0, pool.wipe());
        assertEquals(second, pool.tryClaim());
        assertEquals(first, pool.tryClaim());
        assertEquals(2, pool.freeChunks());
    }

    private static void refused(Executable step, int chunk, ChunkState state) {
        IllegalStateException e = assertThrows(IllegalStateException.class, step);
        assertTrue(e.getMessage().startsWith("chunk " + chunk + " is " + state), e.getMessage());
    }

    @Test
    void shouldGiveEachChunkSeparateMemory() {
        assertEquals(0, pool.baseAddress() % 4096);
        for (int chunk = 0; chunk < 4; chunk++) {
            assertEquals(pool.baseAddress() + (long) chunk * CHUNK_BYTES, pool.address(chunk));
            UnsafeApi.setMemory(pool.address(chunk), CHUNK_BYTES, (byte) (chunk + 1));
        }
        for (int chunk = 0; chunk < 4; chunk++) {
            assertEquals(CHUNK_BYTES, pool.buffer(chunk).capacity());
            assertEquals(chunk + 1, pool.buffer(chunk).get(0));
            assertEquals(chunk + 1, pool.buffer(chunk).get(CHUNK_BYTES - 1));
            assertEquals(chunk + 1, pool.region().get(chunk * CHUNK_BYTES));
        }
    }

    @Test
    void shouldAllocateNothingWhenChunksAreClaimedAndReleased() {
        FairClaims claims = new FairClaims(pool);
        cycle(claims, 50_000);
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long self = Thread.currentThread().getId();
        threads.getThreadAllocatedBytes(self);
        long before = threads.getThreadAllocatedBytes(self);
        long overhead = threads.getThreadAllocatedBytes(self) - before;
        before = threads.getThreadAllocatedBytes(self);
        cycle(claims, 50_000);
        long allocated = threads.getThreadAllocatedBytes(self) - before - overhead;
        assertTrue(allocated < 1024, "50000 claims and releases allocated " + allocated + " bytes");
    }

    private void cycle(FairClaims claims, int rounds) {
        for (int i = 0; i < rounds; i++) {
            int direct = pool.tryClaim();
            pool.markReady(direct);
            int fair = claims.claim(Long.MAX_VALUE);
            claims.releaseUnused(fair);
            claims.release(direct);
        }
    }
}
