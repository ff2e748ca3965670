package io.ppmr.migration.source;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transport.RailFigures;
import java.time.Duration;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/** The metrics of a source over its lifetime. All are registered at its start. Safe for any thread. */
public final class SourceMetrics {
    private static final double NANOS = 1e9;
    private static final Duration[] BOUNDS = {
        Duration.ofMillis(10),
        Duration.ofMillis(100),
        Duration.ofMillis(300),
        Duration.ofSeconds(1),
        Duration.ofSeconds(3),
        Duration.ofSeconds(10),
        Duration.ofSeconds(30),
        Duration.ofSeconds(100),
        Duration.ofSeconds(300),
        Duration.ofSeconds(1000)
    };

    private final Map<Outcome, Counter> migrations = new EnumMap<>(Outcome.class);
    private final Timer duration;
    private final SourceHops hops;
    private final Map<SourceStep, Timer> steps = new EnumMap<>(SourceStep.class);
    private final Timer pause;
    private final Timer precopyRound;
    private final Timer precopyStop;
    private final Counter precopySent;
    private final Counter precopyWritten;
    private volatile Supplier<List<OpenMigration>> open = List::of;

    public SourceMetrics(MeterRegistry registry, BufferPool pool, FairClaims claims) {
        for (Outcome outcome : Outcome.values()) {
            migrations.put(
                    outcome,
                    Counter.builder("ppmr.source.migrations")
                            .tag("outcome", outcome.name().toLowerCase(Locale.ROOT))
                            .description("migrations by outcome")
                            .register(registry));
        }
        duration = Timer.builder("ppmr.source.migration")
                .description("time from the order to migrate to the end")
                .register(registry);
        for (ChunkState state : ChunkState.values()) {
            Gauge.builder("ppmr.source.pool.chunks", pool, all -> all.chunks(state))
                    .tag("state", state.name().toLowerCase(Locale.ROOT))
                    .description("chunks of the pool by their present use")
                    .register(registry);
        }
        Gauge.builder("ppmr.source.pool.waiting", claims, FairClaims::waiting)
                .description("writers that wait for a chunk of the pool now")
                .register(registry);
        Gauge.builder("ppmr.source.migrations.held", this, SourceMetrics::heldNow)
                .strongReference(true)
                .description("migrations blocked on an unreachable peer; see ppmr status")
                .register(registry);
        hops = new SourceHops(registry, pool.geometry().chunkCount());
        for (SourceStep step : SourceStep.values()) {
            if (step != SourceStep.DONE) {
                steps.put(
                        step,
                        Timer.builder("ppmr.source.step")
                                .tag("step", step.name().toLowerCase(Locale.ROOT))
                                .description("time that a migration spent in a step")
                                .serviceLevelObjectives(BOUNDS)
                                .register(registry));
            }
        }
        pause = Timer.builder("ppmr.source.pause")
                .description(
                        "time for which a job did not compute, from its checkpointer's stop until copies or originals"
                                + " continue")
                .serviceLevelObjectives(BOUNDS)
                .register(registry);
        precopyRound = Timer.builder("ppmr.source.precopy.round")
                .description("duration of a round in which the memory of a running job was copied")
                .register(registry);
        precopyStop = Timer.builder("ppmr.source.precopy.stop")
                .description("time for which such a round stopped the job's threads")
                .register(registry);
        precopySent = Counter.builder("ppmr.source.precopy.sent")
                .baseUnit("bytes")
                .description("memory that was sent while its job computed")
                .register(registry);
        precopyWritten = Counter.builder("ppmr.source.precopy.written")
                .baseUnit("bytes")
                .description("memory that jobs wrote during these rounds, so that it is sent again")
                .register(registry);
    }

    /** Notes a round in which the memory of a running job was copied. */
    void precopied(PreCopyRule.Rounds round) {
        precopyRound.record(round.durationNs(), TimeUnit.NANOSECONDS);
        precopyStop.record(round.stoppedNs(), TimeUnit.NANOSECONDS);
        precopySent.increment((double) round.sentBytes());
        precopyWritten.increment((double) round.writtenBytes());
    }

    /** Registers the meters of a source's rails. */
    public static void showRails(MeterRegistry registry, List<RailFigures> rails) {
        for (RailFigures rail : rails) {
            FunctionCounter.builder("ppmr.source.rail.data", rail, RailFigures::arrivedBytes)
                    .baseUnit("bytes")
                    .tag("rail", rail.name())
                    .description("bytes of chunks that arrived over the rail")
                    .register(registry);
            Gauge.builder("ppmr.source.rail.control.connections", rail, RailFigures::controlConnections)
                    .tag("rail", rail.name())
                    .description("control connections of current migrations that use the rail")
                    .register(registry);
            FunctionCounter.builder("ppmr.source.rail.control.failovers", rail, RailFigures::controlFailovers)
                    .tag("rail", rail.name())
                    .description("moves of a control connection to the rail because its former network had" + " failed")
                    .register(registry);
            FunctionCounter.builder("ppmr.source.rail.losses", rail, RailFigures::losses)
                    .tag("rail", rail.name())
                    .description("failures of the rail during migrations")
                    .register(registry);
            FunctionCounter.builder("ppmr.source.rail.retransmitted.chunks", rail, RailFigures::retransmittedChunks)
                    .tag("rail", rail.name())
                    .description("chunks that were sent again over other rails after this one had failed")
                    .register(registry);
        }
    }

    /** Returns the number of migrations with this outcome. */
    public double count(Outcome outcome) {
        return migrations.get(outcome).count();
    }

    /** Sets the supplier of the open migrations. */
    void held(Supplier<List<OpenMigration>> from) {
        open = from;
    }

    private double heldNow() {
        return open.get().stream().filter(one -> one.waitsFor() != null).count();
    }

    SourceHops hops() {
        return hops;
    }

    void ended(MigrationReport report) {
        migrations.get(report.outcome()).increment();
        duration.record(Duration.ofNanos((long) (report.times().seconds() * NANOS)));
    }

    /** Notes that a step ended. */
    void stepped(String migrationId, SourceStep step, long tookNs) {
        Timer timer = steps.get(step);
        if (timer == null) {
            return;
        }
        timer.record(tookNs, TimeUnit.NANOSECONDS);
        MigrationStep event = new MigrationStep();
        if (event.isEnabled()) {
            event.migration = migrationId;
            event.step = step.name();
            event.took = tookNs;
            event.commit();
        }
    }

    /** Notes that a job continues, here or at the target. */
    void paused(long tookNs) {
        pause.record(tookNs, TimeUnit.NANOSECONDS);
    }

    /** The event for the flight recorder. */
    @Name("ppmr.source.MigrationStep")
    @Label("Migration step")
    @Description("A step of a migration ended")
    @Category("ppmr")
    @StackTrace(false)
    static final class MigrationStep extends Event {
        @Label("Migration")
        String migration;

        @Label("Step")
        String step;

        @Label("Took")
        @Timespan(Timespan.NANOSECONDS)
        long took;
    }
}
