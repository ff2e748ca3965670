package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class BootClockTest {
    private static final long NS_A_SECOND = 1_000_000_000L;
    private static final double UPTIME_STEP_NS = 0.02 * NS_A_SECOND;

    /** Both read the clock behind proc(5)'s uptime, which includes the time of a suspended machine. */
    @Test
    void shouldBeTheKernelsTimeSinceTheBootWhenAsked() throws Exception {
        double beforeNs = uptimeNs();
        long nowNs = BootClock.nowNs();
        double afterNs = uptimeNs();
        assertTrue(beforeNs - UPTIME_STEP_NS <= nowNs && nowNs <= afterNs + UPTIME_STEP_NS, beforeNs + " " + nowNs);
        assertTrue(BootClock.nowNs() >= nowNs);
    }

    @Test
    void shouldReturnHowFarTheMonotonicClockIsBehindWhenAsked() {
        long startNs = System.nanoTime();
        long suspendedNs = BootClock.suspendedNs();
        long nowNs = BootClock.nowNs();
        long endNs = System.nanoTime();
        long behindNs = nowNs - endNs;
        // Time between two of these reads makes the two results differ.
        long limitNs = NS_A_SECOND + (endNs - startNs);
        assertTrue(suspendedNs >= 0 && Math.abs(behindNs - suspendedNs) < limitNs, suspendedNs + " " + behindNs);
    }

    private static double uptimeNs() throws Exception {
        return Double.parseDouble(Files.readString(Path.of("/proc/uptime")).split(" ", -1)[0]) * NS_A_SECOND;
    }
}
