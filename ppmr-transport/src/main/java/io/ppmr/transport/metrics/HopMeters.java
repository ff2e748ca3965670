package io.ppmr.transport.metrics;

import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.concurrent.atomic.LongAdder;

/**
 * Registers the meters of one end's hops. Recording to them allocates nothing and takes no lock, on any thread. A
 * counter exists as long as its adder, which the caller keeps.
 */
public final class HopMeters {
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

    private final MeterRegistry registry;
    private final String end;

    /** @param end the prefix of the meters' names */
    public HopMeters(MeterRegistry registry, String end) {
        this.registry = registry;
        this.end = end;
    }

    /** Counts the bytes that reached a stage. */
    public LongAdder bytes(String stage) {
        return counter(".data", stage, "bytes of images by stage", "bytes");
    }

    /** Counts the chunks that reached a stage. */
    public LongAdder chunks(String stage) {
        return counter(".chunks", stage, "chunks by stage", null);
    }

    private LongAdder counter(String name, String stage, String meaning, String unit) {
        LongAdder sum = new LongAdder();
        FunctionCounter.builder(end + name, sum, LongAdder::sum)
                .baseUnit(unit)
                .tag("stage", stage)
                .description(meaning)
                .register(registry);
        return sum;
    }

    /** Creates a histogram of a hop's duration. */
    public Timer timer(String hop, String meaning) {
        return Timer.builder(end + hop)
                .description(meaning)
                .serviceLevelObjectives(BOUNDS)
                .register(registry);
    }
}
