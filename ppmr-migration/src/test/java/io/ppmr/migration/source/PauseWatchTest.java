package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class PauseWatchTest {
    private static final long REPORT_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long LONG_S = 20;

    private final BlockingQueue<Long> reports = new LinkedBlockingQueue<>();
    private final PauseWatch standstill = new PauseWatch(REPORT_NS, reports::add);

    @AfterEach
    void end() {
        standstill.stop();
    }

    @Test
    void shouldSayAgainAndAgainWhenTheJobStandsStill() throws Exception {
        standstill.start();
        standstill.start();
        long lastNs = 0;
        for (int times = 1; times <= 3; times++) {
            Long stoppedNs = reports.poll(LONG_S, TimeUnit.SECONDS);
            assertNotNull(stoppedNs, "there is no report");
            assertTrue(stoppedNs >= times * REPORT_NS && stoppedNs > lastNs, "reported too early: " + stoppedNs);
            lastNs = stoppedNs;
        }
        assertTrue(standstill.stoppedNs() >= lastNs);
    }

    @Test
    void shouldSayNothingMoreWhenItComputesAgainAndSpeakOfTheNextTimeOnly() throws Exception {
        PauseWatch patient = new PauseWatch(TimeUnit.HOURS.toNanos(1), reports::add);
        patient.start();
        patient.stop();
        assertEquals(0, patient.stoppedNs());
        standstill.start();
        assertNotNull(reports.poll(LONG_S, TimeUnit.SECONDS));
        standstill.stop();
        assertEquals(0, standstill.stoppedNs());
        reports.clear();
        assertNull(reports.poll(5 * REPORT_NS, TimeUnit.NANOSECONDS));
        standstill.start();
        Long stoppedNs = reports.poll(LONG_S, TimeUnit.SECONDS);
        assertNotNull(stoppedNs);
        assertTrue(stoppedNs >= REPORT_NS);
    }
}
