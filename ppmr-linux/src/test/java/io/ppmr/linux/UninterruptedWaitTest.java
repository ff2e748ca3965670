package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class UninterruptedWaitTest {
    @Test
    void shouldWaitAgainAndKeepTheFlagWhenTheThreadIsInterrupted() {
        AtomicInteger waits = new AtomicInteger();
        CountDownLatch over = new CountDownLatch(1);
        Thread.currentThread().interrupt();
        boolean ended = UninterruptedWait.of(() -> {
            if (waits.incrementAndGet() == 2) {
                over.countDown();
            }
            return over.await(60, TimeUnit.SECONDS);
        });
        assertTrue(ended);
        assertEquals(2, waits.get());
        assertTrue(Thread.interrupted(), "the flag is set again");
    }
}
