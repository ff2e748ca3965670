package io.ppmr.bufferpool;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class FairClaimsTest {
    private static final int CHUNKS = 4;
    private static final int PATIENCE = Integer.getInteger("ppmr.patience", 1);
    private static final int LONG_S = 60 * PATIENCE;

    private final BufferPool pool = new BufferPool(new PoolGeometry(16 * 1024, CHUNKS));
    private final FairClaims claims = new FairClaims(pool);
    private final List<Thread> threads = new ArrayList<>();

    /** The chunk that a waiter received. */
    private record Got(int waiter, int chunk) {}

    private final LinkedBlockingQueue<Got> got = new LinkedBlockingQueue<>();

    @AfterEach
    void endWaiters() throws InterruptedException {
        claims.fail();
        for (Thread thread : threads) {
            thread.join(60_000L * PATIENCE);
            assertTrue(!thread.isAlive(), thread + " still waits");
        }
    }

    @Test
    void shouldServeWaitersInTheOrderOfTheirClaims() throws Exception {
        int[] held = takeAll();
        for (int waiter = 0; waiter < 12; waiter++) {
            startWaiter(waiter, inSeconds(6 * LONG_S));
            awaitWaiting(waiter + 1);
        }
        int chunk = held[0];
        pool.markReady(chunk);
        claims.release(chunk);
        for (int waiter = 0; waiter < 12; waiter++) {
            Got next = got.poll(LONG_S, TimeUnit.SECONDS);
            assertEquals(new Got(waiter, chunk), next);
            claims.releaseUnused(chunk);
        }
        assertEquals(0, claims.waiting());
    }

    @Test
    void shouldNotLetALaterClaimOvertakeAWaiter() throws Exception {
        int[] held = takeAll();
        startWaiter(7, inSeconds(6 * LONG_S));
        awaitWaiting(1);
        // Releases directly to the pool, past the waiter, which is not notified.
        pool.releaseUnused(held[0]);
        assertEquals(FairClaims.TIMED_OUT, claims.claim(System.nanoTime()));
        assertEquals(new Got(7, held[0]), got.poll(LONG_S, TimeUnit.SECONDS));
    }

    @Test
    void shouldTimeOutWhenNoChunkComesBeforeTheDeadline() {
        takeAll();
        long startNs = System.nanoTime();
        assertEquals(FairClaims.TIMED_OUT, claims.claim(startNs + TimeUnit.MILLISECONDS.toNanos(50)));
        long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
        assertTrue(tookMs >= 50 && tookMs < 60_000L * PATIENCE, "waited " + tookMs + " ms");
        assertEquals(0, claims.waiting());
    }

    @Test
    void shouldServeTheNextWaiterWhenThePreviousOneTimedOut() throws Exception {
        int[] held = takeAll();
        startWaiter(0, inSeconds(PATIENCE));
        awaitWaiting(1);
        startWaiter(1, inSeconds(6 * LONG_S));
        assertEquals(new Got(0, FairClaims.TIMED_OUT), got.poll(LONG_S, TimeUnit.SECONDS));
        awaitWaiting(1);
        claims.releaseUnused(held[2]);
        assertEquals(new Got(1, held[2]), got.poll(LONG_S, TimeUnit.SECONDS));
    }

    @Test
    void shouldWakeEveryWaiterWhenItFails() throws Exception {
        takeAll();
        for (int waiter = 0; waiter < 5; waiter++) {
            startWaiter(waiter, inSeconds(6 * LONG_S));
        }
        awaitWaiting(5);
        claims.fail();
        for (int waiter = 0; waiter < 5; waiter++) {
            assertEquals(FairClaims.FAILED, got.poll(LONG_S, TimeUnit.SECONDS).chunk());
        }
        assertEquals(FairClaims.FAILED, claims.claim(inSeconds(6 * LONG_S)));
        assertEquals(0, claims.waiting());
    }

    @Test
    void shouldClaimAgainWhenItWasReset() {
        claims.fail();
        assertEquals(FairClaims.FAILED, claims.claim(inSeconds(6 * LONG_S)));
        claims.reset();
        int chunk = claims.claim(inSeconds(6 * LONG_S));
        assertEquals(ChunkState.FILLING, pool.state(chunk));
    }

    @Test
    void shouldEndTheWaitAndKeepTheFlagWhenInterrupted() throws Exception {
        takeAll();
        LinkedBlockingQueue<Boolean> marks = new LinkedBlockingQueue<>();
        Thread thread = new Thread(() -> {
            got.add(new Got(0, claims.claim(inSeconds(6 * LONG_S))));
            marks.add(Thread.currentThread().isInterrupted());
        });
        threads.add(thread);
        thread.start();
        awaitWaiting(1);
        thread.interrupt();
        assertEquals(new Got(0, FairClaims.FAILED), got.poll(LONG_S, TimeUnit.SECONDS));
        assertEquals(true, marks.poll(LONG_S, TimeUnit.SECONDS));
        assertEquals(0, claims.waiting());
    }

    private int[] takeAll() {
        int[] held = new int[CHUNKS];
        for (int i = 0; i < CHUNKS; i++) {
            held[i] = claims.claim(inSeconds(LONG_S));
        }
        return held;
    }

    private void startWaiter(int waiter, long deadlineNs) {
        Thread thread = new Thread(() -> got.add(new Got(waiter, claims.claim(deadlineNs))), "waiter-" + waiter);
        threads.add(thread);
        thread.start();
    }

    private void awaitWaiting(int count) throws InterruptedException {
        long deadlineNs = inSeconds(LONG_S);
        while (claims.waiting() != count) {
            assertTrue(System.nanoTime() - deadlineNs < 0, "waiting is " + claims.waiting() + ", not " + count);
            Thread.onSpinWait();
        }
    }

    private static long inSeconds(int seconds) {
        return System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    }
}
