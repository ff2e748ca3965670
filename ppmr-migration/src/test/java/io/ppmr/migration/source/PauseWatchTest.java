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
    private static final long SAY_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long LONG_S = 20;

    private final BlockingQueue<Long> said = new LinkedBlockingQueue<>();
    private final PauseWatch standstill = new PauseWatch(SAY_NS, said::add);

    @AfterEach
    void end() {
        standstill.ends();
    }

    @Test
    void shouldSayAgainAndAgainWhenTheJobStandsStill() throws Exception {
        standstill.begins();
        standstill.begins();
        long lastNs = 0;
        for (int times = 1; times <= 3; times++) {
            Long stillNs = said.poll(LONG_S, TimeUnit.SECONDS);
            assertNotNull(stillNs, "nothing is said");
            assertTrue(stillNs >= times * SAY_NS && stillNs > lastNs, "said too early: " + stillNs);
            lastNs = stillNs;
        }
        assertTrue(standstill.stillNs() >= lastNs);
    }

    @Test
    void shouldSayNothingMoreWhenItComputesAgainAndSpeakOfTheNextTimeOnly() throws Exception {
        PauseWatch patient = new PauseWatch(TimeUnit.HOURS.toNanos(1), said::add);
        patient.begins();
        patient.ends();
        assertEquals(0, patient.stillNs());
        standstill.begins();
        assertNotNull(said.poll(LONG_S, TimeUnit.SECONDS));
        standstill.ends();
        assertEquals(0, standstill.stillNs());
        said.clear();
        assertNull(said.poll(5 * SAY_NS, TimeUnit.NANOSECONDS));
        standstill.begins();
        Long stillNs = said.poll(LONG_S, TimeUnit.SECONDS);
        assertNotNull(stillNs);
        assertTrue(stillNs >= SAY_NS);
    }
}
