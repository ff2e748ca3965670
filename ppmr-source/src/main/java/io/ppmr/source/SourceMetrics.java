package io.ppmr.source;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.ppmr.source.MigrationReport.Outcome;
import java.time.Duration;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;

/**
 * What a source counts over its life: migrations by outcome, the bytes of their images, and how long they took. Added
 * when a migration ends; nothing of it is on the data path. Safe for any thread.
 */
public final class SourceMetrics {
    private static final double NANOS = 1e9;

    private final Map<Outcome, Counter> migrations = new EnumMap<>(Outcome.class);
    private final Counter bytes;
    private final Timer duration;

    public SourceMetrics(MeterRegistry registry) {
        for (Outcome outcome : Outcome.values()) {
            migrations.put(
                    outcome,
                    Counter.builder("ppmr.source.migrations." + outcome.name().toLowerCase(Locale.ROOT))
                            .description("migrations that ended so")
                            .register(registry));
        }
        bytes = Counter.builder("ppmr.source.bytes")
                .description("bytes of images that were sent")
                .register(registry);
        duration = Timer.builder("ppmr.source.migration")
                .description("time from the order to migrate to the end")
                .register(registry);
    }

    /** How many migrations have ended so. */
    public double count(Outcome outcome) {
        return migrations.get(outcome).count();
    }

    void ended(MigrationReport report) {
        migrations.get(report.outcome()).increment();
        bytes.increment((double) report.bytes());
        duration.record(Duration.ofNanos((long) (report.seconds() * NANOS)));
    }
}
