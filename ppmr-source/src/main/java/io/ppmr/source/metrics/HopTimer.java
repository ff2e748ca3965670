package io.ppmr.source.metrics;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** A histogram of how long a hop takes; recording allocates nothing and takes no lock. Any thread. */
final class HopTimer {
    private static final Duration[] BOUNDS = {
        Duration.ofNanos(10_000),
        Duration.ofNanos(30_000),
        Duration.ofNanos(100_000),
        Duration.ofNanos(300_000),
        Duration.ofMillis(1),
        Duration.ofMillis(3),
        Duration.ofMillis(10),
        Duration.ofMillis(30),
        Duration.ofMillis(100),
        Duration.ofMillis(300),
        Duration.ofSeconds(1),
        Duration.ofSeconds(3),
        Duration.ofSeconds(10)
    };

    private final Timer timer;

    HopTimer(MeterRegistry registry, String name, String meaning) {
        timer = Timer.builder(name)
                .description(meaning)
                .serviceLevelObjectives(BOUNDS)
                .register(registry);
    }

    void record(long tookNs) {
        timer.record(tookNs, TimeUnit.NANOSECONDS);
    }
}
