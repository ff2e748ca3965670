package io.ppmr.source.metrics;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.ppmr.source.MigrationProgress.Step;
import io.ppmr.source.metrics.HopEvents.MigrationStep;
import java.time.Duration;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** How long the steps of migrations take, and for how long jobs do not compute. Any thread. */
public final class StepTimes {
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

    private final Map<Step, Timer> steps = new EnumMap<>(Step.class);
    private final Timer pause;

    public StepTimes(MeterRegistry registry) {
        for (Step step : Step.values()) {
            if (step != Step.DONE) {
                steps.put(
                        step,
                        Timer.builder("ppmr.source.step")
                                .tag("step", step.name().toLowerCase(Locale.ROOT))
                                .description("how long a migration was in a step")
                                .serviceLevelObjectives(BOUNDS)
                                .register(registry));
            }
        }
        pause = Timer.builder("ppmr.source.pause")
                .description("how long a job did not compute: from its hold until copies or originals go on")
                .serviceLevelObjectives(BOUNDS)
                .register(registry);
    }

    /** A step has ended. */
    public void stepped(String migrationId, Step step, long tookNs) {
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

    /** A job goes on, here or there. */
    public void paused(long tookNs) {
        pause.record(tookNs, TimeUnit.NANOSECONDS);
    }
}
