package io.ppmr.daemon.service;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.RequestException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class OwnerPaceTest {
    private static final long SECOND_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long MONTH_S = TimeUnit.DAYS.toSeconds(30);
    /** Times of the monotonic clock may be negative. */
    private static final long START_NS = -5 * SECOND_NS;

    private final OwnerPace pace = new OwnerPace();

    /** Requests a migration each second for a month, and returns the number of started migrations. */
    private int startedInAMonth(boolean moved) {
        int started = 0;
        for (long second = 0; second < MONTH_S; second++) {
            long nowNs = START_NS + second * SECOND_NS;
            try {
                pace.start("greedy", nowNs);
                pace.ended("greedy", moved, nowNs);
                started++;
            } catch (RequestException refused) {
                assertTrue(refused.getMessage().contains("may be started in"), refused.getMessage());
            }
        }
        return started;
    }

    @Test
    void shouldBoundAMonthsFailuresWhenAUserNeverStopsTrying() {
        int started = startedInAMonth(false);
        assertTrue(started > 1_000 && started < 5_000, started + " migrations were started");
    }

    @Test
    void shouldBoundAMonthsMigrationsWhenAUserNeverStopsMoving() {
        int started = startedInAMonth(true);
        assertTrue(started > 100_000 && started < 270_000, started + " migrations were started");
    }

    @Test
    void shouldLetOthersStartWhenOneUserMustWait() throws Exception {
        startedInAMonth(false);
        long nowNs = START_NS + MONTH_S * SECOND_NS;
        pace.start("other", nowNs);
        pace.ended("other", true, nowNs);
    }

    @Test
    void shouldMakeAUserWaitLongerAfterEachFailureAndNoLongerAfterASuccess() throws Exception {
        long nowNs = START_NS;
        for (int free = 0; free < 4; free++) {
            pace.start("user", nowNs);
            pace.ended("user", false, nowNs);
        }
        long[] rests = {1, 2, 4, 8};
        for (long restS : rests) {
            long early = nowNs + restS * SECOND_NS - 1;
            String refusal = assertThrows(RequestException.class, () -> pace.start("user", early))
                    .getMessage();
            assertTrue(refusal.contains("moved nothing") && refusal.contains("in 1 s"), refusal);
            nowNs += restS * SECOND_NS;
            pace.start("user", nowNs);
            pace.ended("user", false, nowNs);
        }
        nowNs += TimeUnit.MINUTES.toNanos(10);
        pace.start("user", nowNs);
        pace.ended("user", true, nowNs);
        pace.start("user", nowNs);
    }
}
