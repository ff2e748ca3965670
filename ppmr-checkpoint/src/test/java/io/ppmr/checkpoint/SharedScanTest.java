package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests that a thousand ranks share the scans of the node's processes. */
@Timeout(120)
class SharedScanTest {
    private static final int MANY = 200;

    private final ExecutorService threads = Executors.newCachedThreadPool();

    @AfterEach
    void tearDown() {
        threads.shutdownNow();
    }

    @Test
    void shouldLookAnewForEachCallOfOneThread() {
        AtomicInteger looks = new AtomicInteger();
        SharedScan<Integer> look = new SharedScan<>(looks::incrementAndGet);
        assertEquals(1, look.scan());
        assertEquals(2, look.scan());
    }

    /**
     * The first scan hangs until all others have requested one. They share the second, because the first began before.
     */
    @Test
    void shouldShareOneLookAmongAllThatAskedBeforeItBegan() throws Exception {
        AtomicInteger looks = new AtomicInteger();
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        SharedScan<Integer> look = new SharedScan<>(() -> {
            int number = looks.incrementAndGet();
            if (number == 1) {
                begun.countDown();
                awaitQuietly(goOn);
            }
            return number;
        });
        Future<Integer> first = threads.submit(look::scan);
        assertTrue(begun.await(60, TimeUnit.SECONDS));
        List<Future<Integer>> others = new ArrayList<>();
        ConcurrentLinkedQueue<Thread> asking = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < MANY; i++) {
            others.add(threads.submit(() -> {
                asking.add(Thread.currentThread());
                return look.scan();
            }));
        }
        assertTrue(Polling.until(
                Duration.ofSeconds(20),
                () -> asking.size() == MANY
                        && asking.stream().allMatch(thread -> thread.getState() == Thread.State.TIMED_WAITING)));
        goOn.countDown();
        assertEquals(1, first.get(60, TimeUnit.SECONDS));
        for (Future<Integer> other : others) {
            assertEquals(2, other.get(60, TimeUnit.SECONDS), "a scan that began before the request does not count");
        }
        assertEquals(2, looks.get());
    }

    @Test
    void shouldLookForTheOthersWhenOneLookFails() throws Exception {
        AtomicInteger looks = new AtomicInteger();
        SharedScan<Integer> look = new SharedScan<>(() -> {
            if (looks.incrementAndGet() == 1) {
                throw new IllegalStateException("no more files");
            }
            return looks.get();
        });
        assertThrows(IllegalStateException.class, look::scan);
        assertEquals(2, threads.submit(look::scan).get(60, TimeUnit.SECONDS));
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            assertTrue(latch.await(60, TimeUnit.SECONDS));
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
