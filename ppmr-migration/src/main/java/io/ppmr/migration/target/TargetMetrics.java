package io.ppmr.migration.target;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.operator.OpenMigration;
import java.time.Duration;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;

/** The metrics of a target over its lifetime. All are registered at its start. Safe for any thread. */
public final class TargetMetrics {
    /** The events that are counted. */
    public enum Meter {
        COMMITTED,
        ROLLED_BACK,
        REFUSED,
        /** Reads of a stream at an offset that was already released. */
        REFUSED_SEEKS
    }

    private static final List<Meter> OUTCOMES = List.of(Meter.COMMITTED, Meter.ROLLED_BACK, Meter.REFUSED);

    private final Map<Meter, Counter> counters = new EnumMap<>(Meter.class);
    private final Timer duration;
    private final TargetHops hops;
    /** The pools. A gauge refers to its object only weakly. */
    private final List<BufferPool> pools;

    private volatile Supplier<List<OpenMigration>> open = List::of;

    /**
     * Registers the meters.
     *
     * @param pools the service's pools, one for each migration at a time
     */
    public TargetMetrics(MeterRegistry registry, List<BufferPool> pools) {
        this.pools = pools;
        for (Meter outcome : OUTCOMES) {
            counters.put(
                    outcome,
                    Counter.builder("ppmr.target.migrations")
                            .tag("outcome", outcome.name().toLowerCase(Locale.ROOT))
                            .description("migrations by their outcome here")
                            .register(registry));
        }
        counters.put(
                Meter.REFUSED_SEEKS,
                Counter.builder("ppmr.target.reads.refused")
                        .tag("reason", "seek")
                        .description("reads of a stream at an offset that was already released")
                        .register(registry));
        duration = Timer.builder("ppmr.target.migration")
                .description("time from accepting a migration to its end")
                .register(registry);
        for (ChunkState state : ChunkState.values()) {
            Gauge.builder("ppmr.target.pool.chunks", pools, all -> all.stream()
                            .mapToInt(pool -> pool.chunks(state))
                            .sum())
                    .tag("state", state.name().toLowerCase(Locale.ROOT))
                    .description("chunks of the pools and their bounce buffers by their present use")
                    .register(registry);
        }
        Gauge.builder("ppmr.target.migrations.held", this, TargetMetrics::heldNow)
                .strongReference(true)
                .description("migrations blocked on an unreachable peer; see ppmr status")
                .register(registry);
        hops = new TargetHops(registry);
    }

    /** Returns the count of a meter so far. */
    public double count(Meter meter) {
        return counters.get(meter).count();
    }

    /** Returns the used bytes of the pools and of staging. */
    long usedBytes() {
        long taken = 0;
        for (BufferPool pool : pools) {
            for (ChunkState state : ChunkState.values()) {
                int chunks = state == ChunkState.FREE ? 0 : pool.chunks(state);
                taken += (long) chunks * pool.geometry().chunkBytes();
            }
        }
        return taken + hops.stagingUsedBytes();
    }

    /** Sets the supplier of the open migrations. */
    void held(Supplier<List<OpenMigration>> from) {
        open = from;
    }

    private double heldNow() {
        return open.get().stream().filter(one -> one.waitsFor() != null).count();
    }

    TargetHops hops() {
        return hops;
    }

    void refused() {
        counters.get(Meter.REFUSED).increment();
    }

    void ended(FinalOutcome outcome, long refusedSeeks, Duration took) {
        Meter result = outcome == FinalOutcome.COMMITTED ? Meter.COMMITTED : Meter.ROLLED_BACK;
        counters.get(result).increment();
        counters.get(Meter.REFUSED_SEEKS).increment((double) refusedSeeks);
        duration.record(took);
    }
}
