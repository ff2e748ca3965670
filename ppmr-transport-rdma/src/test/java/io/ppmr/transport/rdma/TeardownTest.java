package io.ppmr.transport.rdma;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Tests that what a connection holds is taken down once, however its owner and its thread end. */
class TeardownTest {
    private static final long LONG_MS = 60_000;

    private final AtomicInteger times = new AtomicInteger();
    private final Teardown teardown = new Teardown(times::incrementAndGet);
    private final CountDownLatch mayEnd = new CountDownLatch(1);
    private final Thread thread = new Thread(() -> {
        try {
            mayEnd.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        } finally {
            teardown.threadEnds();
        }
    });

    @Test
    void shouldTakeDownByTheOwnerWhenTheThreadHasEnded() {
        mayEnd.countDown();
        thread.start();
        teardown.close(thread, LONG_MS, "a path");
        assertEquals(1, times.get());
    }

    @Test
    void shouldTakeDownByTheThreadWhenItEndsAfterItsOwnerHasGone() throws Exception {
        thread.start();
        teardown.close(thread, 10, "a path");
        assertEquals(0, times.get(), "the thread still uses it");
        mayEnd.countDown();
        thread.join();
        assertEquals(1, times.get());
    }

    @Test
    void shouldWaitForTheThreadThoughTheOwnerIsInterrupted() throws Exception {
        thread.start();
        Thread ender = new Thread(mayEnd::countDown);
        Thread.currentThread().interrupt();
        ender.start();
        teardown.close(thread, LONG_MS, "a path");
        assertTrue(Thread.interrupted(), "the interrupt is kept");
        assertEquals(1, times.get());
        ender.join();
    }

    @Test
    void shouldGoOnTakingDownWhenOneStepEndsWithAnError() {
        CloseSequence.quietly("a first object", () -> {
            throw new UnsatisfiedLinkError("as a library without this call");
        });
        CloseSequence.quietly("a second object", () -> times.incrementAndGet() - 1);
        assertEquals(1, times.get());
    }
}
