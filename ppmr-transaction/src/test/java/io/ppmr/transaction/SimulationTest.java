package io.ppmr.transaction;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Runs the drivers with their timers on a network in memory, in virtual time. Each run has one seed. It covers delays,
 * losses, duplicates, cuts, crashes, frozen services and full disks. Nodes may be lost for good, and fences may fail.
 * {@code -Dppmr.seed=N} repeats a run and prints it. {@code -Dppmr.simulation.seconds=N} sets the time of the soak.
 */
class SimulationTest {
    private static final int SCHEDULES = 10_000;

    @Test
    @Timeout(300)
    void shouldKeepThePromiseInEverySchedule() {
        Long seed = Long.getLong("ppmr.seed");
        if (seed != null) {
            run(seed, true);
            return;
        }
        long startNs = System.nanoTime();
        int committed = 0;
        int continued = 0;
        for (long i = 1; i <= SCHEDULES; i++) {
            SimWorld world = run(i, false);
            committed += world.ran ? 1 : 0;
            continued += world.continued ? 1 : 0;
        }
        System.out.printf(
                "simulation: %d schedules (%d committed, %d rolled back) in %d ms%n",
                SCHEDULES, committed, continued, (System.nanoTime() - startNs) / 1_000_000);
        assertTrue(committed > SCHEDULES / 10, "hardly any run commits: the simulation shows nothing");
        assertTrue(continued > SCHEDULES / 10, "hardly any run rolls back: the simulation shows nothing");
    }

    @Tag("soak")
    @Test
    @Timeout(value = 7, unit = TimeUnit.DAYS)
    void shouldKeepThePromiseForAsLongAsAsked() {
        long endNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.getLong("ppmr.simulation.seconds", 300));
        long seed = System.currentTimeMillis() * 1000;
        long first = seed;
        while (System.nanoTime() < endNs) {
            run(seed++, false);
        }
        System.out.printf("simulation: %d schedules from seed %d%n", seed - first, first);
    }

    private static SimWorld run(long seed, boolean print) {
        SimCluster cluster = new SimCluster(seed);
        String wrong = cluster.run();
        if (print || wrong != null) {
            cluster.world.log.forEach(System.out::println);
        }
        assertNull(wrong, () -> "seed " + seed + " (-Dppmr.seed=" + seed + " repeats it): " + wrong);
        return cluster.world;
    }
}
