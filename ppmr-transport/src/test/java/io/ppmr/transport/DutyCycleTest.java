package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class DutyCycleTest {
    private static final long SOON_NS = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long LATER_NS = TimeUnit.SECONDS.toNanos(60);

    @Test
    void shouldDetectThatAnAgentRunsOrIsBlockedOrEnded() throws InterruptedException {
        DutyCycle rounds = new DutyCycle();
        assertFalse(rounds.awaitNextCycle(SOON_NS, () -> false), "it is blocked");
        assertTrue(rounds.awaitNextCycle(SOON_NS, () -> true), "it ended, so there is no wait");
        AtomicBoolean over = new AtomicBoolean();
        Thread agent = new Thread(() -> {
            while (!over.get()) {
                rounds.increment();
                Thread.onSpinWait();
            }
        });
        agent.start();
        try {
            assertTrue(rounds.awaitNextCycle(LATER_NS, () -> false), "it completes a cycle");
        } finally {
            over.set(true);
            agent.join();
        }
    }
}
