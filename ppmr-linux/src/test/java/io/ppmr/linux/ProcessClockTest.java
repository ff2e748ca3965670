package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ProcessClockTest {
    private static final int LARGER_THAN_ANY_PID = (1 << 22) + 1;

    private static long own() {
        return ProcessClock.ns((int) ProcessHandle.current().pid()).orElseThrow();
    }

    @Test
    void shouldCountTheTimeThatAProcessRan() {
        long before = own();
        long endNs = System.nanoTime() + 50_000_000;
        while (System.nanoTime() < endNs) {
            Thread.onSpinWait();
        }
        long ranNs = own() - before;
        assertTrue(ranNs > 0, ranNs + " ns");
    }

    @Test
    void shouldCountNothingWhenAProcessWaits() throws Exception {
        Process sleeping = new ProcessBuilder("sleep", "60").start();
        try {
            int pid = (int) sleeping.pid();
            long deadlineNs = System.nanoTime() + 60_000_000_000L;
            OptionalLong before = ProcessClock.ns(pid);
            OptionalLong now = OptionalLong.empty();
            while (!now.equals(before) && System.nanoTime() < deadlineNs) {
                before = now.isPresent() ? now : before;
                sleeping.waitFor(20, TimeUnit.MILLISECONDS);
                now = ProcessClock.ns(pid);
            }
            assertEquals(before, now);
            assertTrue(now.orElseThrow() > 0, "it has started");
        } finally {
            sleeping.destroyForcibly().waitFor();
        }
    }

    @Test
    void shouldBeEmptyWhenThereIsNoSuchProcess() {
        assertEquals(OptionalLong.empty(), ProcessClock.ns(LARGER_THAN_ANY_PID));
    }
}
