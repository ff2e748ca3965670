package io.ppmr.daemon.history;

import io.ppmr.daemon.history.MigrationHistory.Event;
import io.ppmr.daemon.history.MigrationHistory.MigrationRequest;
import io.ppmr.daemon.history.MigrationHistory.Placed;
import io.ppmr.daemon.history.MigrationHistory.Step;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleCurve;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * The records of a migration that a service sends, from which a user's own process draws the report. The fields are
 * those of {@link MigrationHistory}, with a bound for each list and text.
 *
 * @param samples null if there are none
 */
public record ReportedMigration(
        String id,
        String side,
        MigrationRequest request,
        long startedEpochMs,
        long endedEpochMs,
        int attempts,
        String outcome,
        String reason,
        List<Placed> plan,
        List<Step> steps,
        List<Event> events,
        MigrationSamples samples) {
    /** Maximum number of steps, and of events. A page shows fewer. */
    static final int MAX_ROWS = 1000;
    /** Maximum number of ranks with their targets. */
    static final int MAX_RANKS = 4096;
    /** Maximum number of characters of a text. */
    static final int MAX_TEXT = 1000;

    public ReportedMigration {
        plan = List.copyOf(plan);
        steps = List.copyOf(steps);
        events = List.copyOf(events);
        for (String text : Arrays.asList(id, side, outcome, reason, request.who(), request.job(), request.what())) {
            requirePresent(text);
        }
        plan.forEach(placed -> requirePresent(placed.target()));
        steps.forEach(step -> {
            requirePresent(step.name());
            requirePresent(step.peer());
        });
        events.forEach(event -> {
            requirePresent(event.name());
            requirePresent(event.detail());
        });
        if (samples != null) {
            for (SampleCurve curve : samples.curves()) {
                if (curve.value() == null
                        || curve.bytes().size() != samples.timesMs().size()
                        || curve.bytes().size() > MigrationSamples.MAX_POINTS) {
                    throw new IllegalArgumentException("a curve does not have a value for each time");
                }
            }
        }
    }

    /** The records may come from a file of another node. */
    private static void requirePresent(String text) {
        if (text == null) {
            throw new IllegalArgumentException("a text is missing");
        }
    }

    /** Returns what is sent or written of a migration. */
    public static ReportedMigration of(MigrationHistory all, Optional<MigrationSamples> samples) {
        return new ReportedMigration(
                all.id(),
                all.side(),
                new MigrationRequest(
                        shortened(all.request().who()),
                        shortened(all.request().job()),
                        shortened(all.request().what())),
                all.startedEpochMs(),
                all.endedEpochMs(),
                all.attempts(),
                all.outcome(),
                shortened(all.reason()),
                all.plan().stream().limit(MAX_RANKS).toList(),
                all.steps().stream().limit(MAX_ROWS).toList(),
                all.events().stream()
                        .limit(MAX_ROWS)
                        .map(event ->
                                new Event(event.atEpochMs(), event.attempt(), event.name(), shortened(event.detail())))
                        .toList(),
                samples.orElse(null));
    }

    private static String shortened(String text) {
        return text.length() <= MAX_TEXT ? text : text.substring(0, MAX_TEXT) + "...";
    }

    /** Returns the migration as the journal's reader has it. */
    public MigrationHistory history() {
        return new MigrationHistory(
                id, side, request, startedEpochMs, endedEpochMs, attempts, outcome, reason, plan, steps, events);
    }
}
