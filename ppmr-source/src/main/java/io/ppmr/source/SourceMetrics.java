package io.ppmr.source;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.source.MigrationReport.Outcome;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.source.metrics.StepTimes;
import io.ppmr.transaction.OpenMigration;
import java.time.Duration;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;

/** What a source counts over its life; everything is registered at its start. Safe for any thread. */
public final class SourceMetrics {
    private static final double NANOS = 1e9;

    private final Map<Outcome, Counter> migrations = new EnumMap<>(Outcome.class);
    private final Timer duration;
    private final SourceHops hops;
    private final StepTimes steps;
    private volatile Supplier<List<OpenMigration>> open = List::of;

    public SourceMetrics(MeterRegistry registry, BufferPool pool, FairClaims claims) {
        for (Outcome outcome : Outcome.values()) {
            migrations.put(
                    outcome,
                    Counter.builder("ppmr.source.migrations")
                            .tag("outcome", outcome.name().toLowerCase(Locale.ROOT))
                            .description("migrations by how they ended")
                            .register(registry));
        }
        duration = Timer.builder("ppmr.source.migration")
                .description("time from the order to migrate to the end")
                .register(registry);
        for (ChunkState state : ChunkState.values()) {
            Gauge.builder("ppmr.source.pool.chunks", pool, all -> all.chunks(state))
                    .tag("state", state.name().toLowerCase(Locale.ROOT))
                    .description("chunks of the pool by what they are used for now")
                    .register(registry);
        }
        Gauge.builder("ppmr.source.pool.waiting", claims, FairClaims::waiting)
                .description("writers that wait for a chunk of the pool now")
                .register(registry);
        Gauge.builder("ppmr.source.migrations.held", this, SourceMetrics::heldNow)
                .strongReference(true)
                .description("migrations whose ranks are held for somebody who does not answer; ppmr status says whom")
                .register(registry);
        hops = new SourceHops(registry, pool.geometry().chunkCount());
        steps = new StepTimes(registry);
    }

    /** How many migrations have ended so. */
    public double count(Outcome outcome) {
        return migrations.get(outcome).count();
    }

    /** Where it is asked which migrations are open. */
    void held(Supplier<List<OpenMigration>> from) {
        open = from;
    }

    private double heldNow() {
        return open.get().stream().filter(one -> one.waitsFor() != null).count();
    }

    SourceHops hops() {
        return hops;
    }

    StepTimes steps() {
        return steps;
    }

    void ended(MigrationReport report) {
        migrations.get(report.outcome()).increment();
        duration.record(Duration.ofNanos((long) (report.seconds() * NANOS)));
    }
}
