package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class LeastRateTest {
    private static final long MIB = 1 << 20;
    private static final long WANTED = 30 * MIB;

    private final LeastRate rate = new LeastRate(1 << 20, Duration.ofSeconds(30));

    private Optional<String> after(double idleSeconds, long bytes) {
        return rate.whyTooSlow((long) (idleSeconds * TimeUnit.SECONDS.toNanos(1)), bytes);
    }

    /** Checks every tenth of a second. Returns the first time that is too slow, or -1. */
    private double firstSlow(double seconds, double bytesPerSecond) {
        for (int i = 0; i <= seconds * 10; i++) {
            if (after(i / 10.0, (long) (i / 10.0 * bytesPerSecond)).isPresent()) {
                return i / 10.0;
            }
        }
        return -1;
    }

    @Test
    void shouldNameWhatIsWantedWhenNothingIsWritten() {
        assertEquals(30, firstSlow(100, 0));
        String problem = after(30, 0).orElseThrow();
        assertTrue(problem.contains("wrote 0 bytes in 30 s") && problem.contains("min_rate"), problem);
    }

    @Test
    void shouldAllowTheLeastRateAndNoLess() {
        assertEquals(-1, firstSlow(1000, 1.01 * MIB));
        assertEquals(30, new LeastRateTest().firstSlow(1000, 0.95 * MIB));
    }

    @Test
    void shouldCountOnlyTheLastThirtySeconds() {
        assertEquals(Optional.empty(), after(0, 0));
        assertEquals(Optional.empty(), after(1, 100 * WANTED));
        for (int second = 2; second <= 30; second++) {
            assertEquals(Optional.empty(), after(second, 100 * WANTED), "after " + second + " s");
        }
        assertTrue(after(31, 100 * WANTED).isPresent());
    }

    /** Bytes count even if they are written while the network blocks the writer, so that the time does not count. */
    @Test
    void shouldCountWhatIsWrittenWhileAWriterIsHeldUp() {
        for (int second = 0; second <= 200; second++) {
            assertEquals(Optional.empty(), after(second, (second / 29) * WANTED), "after " + second + " s");
        }
    }

    @Test
    void shouldGoByWhatItKnowsWhenItWasNotAskedForLong() {
        assertEquals(Optional.empty(), after(10, 0));
        assertEquals(Optional.empty(), after(100, WANTED), "90 s and a few bytes more than nobody can say when");
        assertTrue(after(190, 2 * WANTED - 1).isPresent(), "less than is wanted in 30 s, within 90 s");
    }

    @Test
    void shouldWantNothingWhereThereIsNoBound() {
        LeastRate none = new LeastRate(0, Duration.ofSeconds(30));
        assertEquals(Optional.empty(), none.whyTooSlow(TimeUnit.HOURS.toNanos(1), 0));
        assertEquals(Optional.empty(), none.whyTooSlow(TimeUnit.HOURS.toNanos(2), 0));
    }
}
