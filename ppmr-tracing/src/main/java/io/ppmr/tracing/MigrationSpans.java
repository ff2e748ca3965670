package io.ppmr.tracing;

import io.ppmr.daemon.history.MigrationHistory;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleCurve;
import io.ppmr.migration.samples.SampledValue;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.LongStream;

/**
 * Makes the spans of a migration at one node from its journal and its samples. The keys of the migration and of its
 * attempts are those of the source, so the spans of a target find their parents.
 */
final class MigrationSpans {
    /** The key of the span of the whole migration. */
    static final String MIGRATION = "migration";

    private static final int MAX_STEPS = 1000;
    private static final int MAX_TEXT = 1000;
    private static final String BYTES = "ppmr.bytes";
    private static final String RANK = "ppmr.rank";

    private final MigrationHistory migration;
    private final Optional<MigrationSamples> samples;
    private final List<PlannedSpan> spans = new ArrayList<>();

    private MigrationSpans(MigrationHistory migration, Optional<MigrationSamples> samples) {
        this.migration = migration;
        this.samples = samples;
    }

    /** Returns the spans of this journal's side, parents before their children. */
    static List<PlannedSpan> of(MigrationHistory migration, Optional<MigrationSamples> samples) {
        MigrationSpans made = new MigrationSpans(migration, samples);
        if (migration.side().equals("source")) {
            made.addSource();
        } else {
            made.addTarget();
        }
        return List.copyOf(made.spans);
    }

    private void addSource() {
        spans.add(new PlannedSpan(
                MIGRATION,
                "",
                MIGRATION,
                LongStream.concat(
                                LongStream.of(migration.startedEpochMs()),
                                migration.steps().stream().mapToLong(MigrationHistory.Step::startEpochMs))
                        .min()
                        .orElseThrow(),
                lastMs(),
                isMoved() ? "" : shortened(migration.outcome() + " " + migration.reason()),
                Map.of("ppmr.attempts", (long) migration.attempts()),
                Map.of(
                        "ppmr.migration", migration.id(),
                        "ppmr.job", shortened(migration.request().job()),
                        "ppmr.outcome", migration.outcome())));
        addSteps(stepsOf(0), MIGRATION);
        for (int attempt = 1; attempt <= migration.attempts(); attempt++) {
            addAttempt(attempt);
        }
        addRanks("source", SampledValue.WRITTEN, "checkpoint writes");
    }

    private void addAttempt(int attempt) {
        List<MigrationHistory.Step> steps = stepsOf(attempt);
        long[] times = LongStream.concat(
                        migration.events().stream()
                                .filter(event -> event.attempt() == attempt)
                                .mapToLong(MigrationHistory.Event::atEpochMs),
                        steps.stream().flatMapToLong(step -> LongStream.of(step.startEpochMs(), endMs(step))))
                .sorted()
                .toArray();
        if (times.length > 0) {
            spans.add(new PlannedSpan(
                    attemptKey(attempt), MIGRATION, "attempt " + attempt, times[0], times[times.length - 1]));
            addSteps(steps, attemptKey(attempt));
        }
    }

    private List<MigrationHistory.Step> stepsOf(int attempt) {
        return migration.steps().stream()
                .filter(step -> step.attempt() == attempt)
                .limit(MAX_STEPS)
                .toList();
    }

    private void addSteps(List<MigrationHistory.Step> steps, String parent) {
        for (int i = 0; i < steps.size(); i++) {
            MigrationHistory.Step step = steps.get(i);
            spans.add(new PlannedSpan(
                    parent + " step " + i,
                    parent,
                    shortened(step.name()),
                    step.startEpochMs(),
                    endMs(step),
                    "",
                    step.rank() < 0
                            ? Map.of(BYTES, step.bytes())
                            : Map.of(BYTES, step.bytes(), RANK, (long) step.rank()),
                    Map.of()));
        }
    }

    private void addTarget() {
        String self = "target " + place();
        long startMs = LongStream.concat(
                        samples.stream().mapToLong(MigrationSamples::startEpochMs),
                        LongStream.of(migration.startedEpochMs()))
                .min()
                .orElseThrow();
        spans.add(new PlannedSpan(self, attemptKey(migration.attempts()), "target", startMs, lastMs()));
        long sinceMs = startMs;
        String phase = "receive and restart";
        for (MigrationHistory.Event event : migration.events()) {
            String next = phaseFrom(event.name());
            if (!next.isEmpty()) {
                spans.add(new PlannedSpan(self + " " + phase, self, phase, sinceMs, event.atEpochMs()));
                sinceMs = event.atEpochMs();
                phase = next;
            }
        }
        addRanks(self, SampledValue.READ, "restart reads");
    }

    /** Returns the phase that begins with a record of a participant, or empty if none does. */
    private static String phaseFrom(String record) {
        return switch (record) {
            case "PreparedHere" -> "wait for the decision";
            case "CommittedHere", "RolledBackHere" -> "carry the decision out";
            case "Done" -> "over";
            default -> "";
        };
    }

    /** Returns the words of the vote, which distinguish the targets of a migration. */
    private String place() {
        return migration.events().stream()
                .filter(event -> event.name().equals("PreparedHere"))
                .map(MigrationHistory.Event::detail)
                .map(MigrationSpans::shortened)
                .findFirst()
                .orElse("");
    }

    /** Adds the time in which each rank's command moved bytes, of the ranks that have curves of their own. */
    private void addRanks(String self, SampledValue value, String what) {
        if (samples.isEmpty()) {
            return;
        }
        MigrationSamples all = samples.get();
        for (SampleCurve curve : all.curves()) {
            if (curve.value() != value || curve.rank() < 0 || curve.last() == 0) {
                continue;
            }
            int first = 0;
            while (curve.bytes().get(first) == 0) {
                first++;
            }
            int last = curve.bytes().indexOf(curve.last());
            spans.add(new PlannedSpan(
                    self + " rank " + curve.rank(),
                    self.equals("source") ? attemptKey(migration.attempts()) : self,
                    "rank " + curve.rank() + ": " + what,
                    all.startEpochMs() + all.timesMs().get(Math.max(0, first - 1)),
                    all.startEpochMs() + all.timesMs().get(last),
                    "",
                    Map.of(BYTES, curve.last(), RANK, (long) curve.rank()),
                    Map.of()));
        }
    }

    private static String attemptKey(int attempt) {
        return "attempt " + Math.max(1, attempt);
    }

    private boolean isMoved() {
        return migration.outcome().equals("COMMITTED");
    }

    private long lastMs() {
        return LongStream.concat(
                        migration.steps().stream().mapToLong(MigrationSpans::endMs),
                        migration.events().stream().mapToLong(MigrationHistory.Event::atEpochMs))
                .max()
                .orElse(migration.startedEpochMs());
    }

    private static long endMs(MigrationHistory.Step step) {
        return step.startEpochMs() + step.durationMs();
    }

    private static String shortened(String text) {
        return text.length() <= MAX_TEXT ? text : text.substring(0, MAX_TEXT) + "...";
    }
}
