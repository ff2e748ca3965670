package io.ppmr.os;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class BootClockTest {
    private static final long NS_A_SECOND = 1_000_000_000L;
    private static final double UPTIME_STEP_NS = 0.02 * NS_A_SECOND;

    /** Each reads the clock of proc(5)'s uptime, which counts a suspended machine's time, too. */
    @Test
    void shouldBeTheKernelsTimeSinceTheBootWhenAsked() throws Exception {
        double beforeNs = uptimeNs();
        long nowNs = BootClock.nowNs();
        double afterNs = uptimeNs();
        assertTrue(beforeNs - UPTIME_STEP_NS <= nowNs && nowNs <= afterNs + UPTIME_STEP_NS, beforeNs + " " + nowNs);
        assertTrue(BootClock.nowNs() >= nowNs);
    }

    @Test
    void shouldTellHowFarTheMonotonicClockIsBehindWhenAsked() {
        long startNs = System.nanoTime();
        long suspendedNs = BootClock.suspendedNs();
        long nowNs = BootClock.nowNs();
        long endNs = System.nanoTime();
        long behindNs = nowNs - endNs;
        // Whatever passes between two of these reads parts the one from the other.
        long limitNs = NS_A_SECOND + (endNs - startNs);
        assertTrue(suspendedNs >= 0 && Math.abs(behindNs - suspendedNs) < limitNs, suspendedNs + " " + behindNs);
    }

    private static double uptimeNs() throws Exception {
        return Double.parseDouble(Files.readString(Path.of("/proc/uptime")).split(" ", -1)[0]) * NS_A_SECOND;
    }
}
