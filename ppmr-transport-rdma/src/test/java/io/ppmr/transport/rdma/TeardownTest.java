package io.ppmr.transport.rdma;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Tests that a connection is closed once, for every order of its owner's and its thread's end. */
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
            teardown.onThreadEnd();
        }
    });

    @Test
    void shouldCloseByTheOwnerAfterTheThreadEnded() {
        mayEnd.countDown();
        thread.start();
        teardown.close(thread, LONG_MS, "a path");
        assertEquals(1, times.get());
    }

    @Test
    void shouldCloseByTheThreadWhenItEndsAfterItsOwnerClosed() throws Exception {
        thread.start();
        teardown.close(thread, 10, "a path");
        assertEquals(0, times.get(), "the thread still uses it");
        mayEnd.countDown();
        thread.join();
        assertEquals(1, times.get());
    }

    @Test
    void shouldWaitForTheThreadWhenTheOwnerIsInterrupted() throws Exception {
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
    void shouldContinueClosingAfterAnError() {
        CloseSequence.quietly("a first object", () -> {
            throw new UnsatisfiedLinkError("as a library without this call");
        });
        CloseSequence.quietly("a second object", () -> times.incrementAndGet() - 1);
        assertEquals(1, times.get());
    }
}
