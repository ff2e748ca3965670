package io.ppmr.bufferpool;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntSupplier;
import org.junit.jupiter.api.Test;

/** Runs many threads on few chunks: a chunk has one owner at a time, and no chunk is lost. */
class ChunkOwnershipTest {
    private static final int THREADS = 8;
    private static final int CHUNKS = 4;
    private static final int CLAIMS_A_THREAD = 20_000;
    private static final int PATIENCE = Integer.getInteger("ppmr.patience", 1);

    private final BufferPool pool = new BufferPool(new PoolGeometry(16 * 1024, CHUNKS));
    private final FairClaims claims = new FairClaims(pool);
    private final AtomicIntegerArray owners = new AtomicIntegerArray(CHUNKS);
    private final AtomicReference<String> trouble = new AtomicReference<>();
    private final AtomicLong done = new AtomicLong();

    @Test
    void shouldAssignAChunkToOneThreadAtATimeWhenThreadsDoNotWait() throws Exception {
        // A claim may find no free chunk. Then the thread retries without a limit, because the machine may be busy.
        run(() -> {
            int chunk = pool.tryClaim();
            while (chunk < 0 && trouble.get() == null) {
                LockSupport.parkNanos(1);
                chunk = pool.tryClaim();
            }
            return chunk;
        });
        assertEquals(CHUNKS, pool.freeChunks());
    }

    @Test
    void shouldAssignAChunkToOneThreadAtATimeWhenThreadsWaitInTurn() throws Exception {
        run(() -> claims.claim(System.nanoTime() + TimeUnit.SECONDS.toNanos(30L * PATIENCE)));
        assertEquals(CHUNKS, pool.freeChunks());
        assertEquals(0, claims.waiting());
    }

    private void run(IntSupplier claim) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int i = 1; i <= THREADS; i++) {
            int self = i;
            Thread thread = new Thread(() -> claimOften(self, claim), "claimer-" + i);
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join(60_000L * PATIENCE);
            assertTrue(!thread.isAlive(), thread + " did not end");
        }
        assertEquals(null, trouble.get());
        assertEquals((long) THREADS * CLAIMS_A_THREAD, done.get(), "claims that ended with a chunk");
    }

    private void claimOften(int self, IntSupplier claim) {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        for (int i = 0; i < CLAIMS_A_THREAD && trouble.get() == null; i++) {
            int chunk = claim.getAsInt();
            if (chunk < 0) {
                continue;
            }
            if (!owners.compareAndSet(chunk, 0, self)) {
                trouble.set("chunk " + chunk + " was handed to " + self + " while it belongs to " + owners.get(chunk));
            }
            pool.buffer(chunk).putInt(0, self);
            if (random.nextInt(16) == 0) {
                LockSupport.parkNanos(1);
            }
            if (pool.buffer(chunk).getInt(0) != self) {
                trouble.set("another thread wrote into chunk " + chunk);
            }
            owners.set(chunk, 0);
            if (random.nextBoolean()) {
                pool.markReady(chunk);
                claims.release(chunk);
            } else {
                claims.releaseUnused(chunk);
            }
            done.incrementAndGet();
        }
    }
}
