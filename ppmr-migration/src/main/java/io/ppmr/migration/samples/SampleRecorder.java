package io.ppmr.migration.samples;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Gathers the samples of one migration in memory of a fixed size. When it is full it drops every second point and takes
 * samples half as often, so the points cover the whole migration however long that is. Confined to one thread.
 */
final class SampleRecorder {
    private static final int POINTS = MigrationSamples.MAX_POINTS;

    private record CurveKey(SampledValue value, int rank) implements Comparable<CurveKey> {
        @Override
        public int compareTo(CurveKey other) {
            int byValue = value.compareTo(other.value);
            // The job is first, then its ranks in their order.
            return byValue != 0 ? byValue : Long.compare(place(), other.place());
        }

        private long place() {
            return rank >= SampleCurve.JOB ? rank : (long) Integer.MAX_VALUE - rank;
        }
    }

    private final long startEpochMs;
    private final long[] timesMs = new long[POINTS];
    private final Map<CurveKey, long[]> curves = new TreeMap<>();
    private final List<Integer> ranks = new ArrayList<>();
    private int points;

    SampleRecorder(long startEpochMs) {
        this.startEpochMs = startEpochMs;
    }

    /** Returns whether there is no room for another point. */
    boolean isFull() {
        return points == POINTS;
    }

    /** Drops every second point. The first one stays. */
    void thin() {
        int kept = (points + 1) / 2;
        for (int i = 1; i < kept; i++) {
            timesMs[i] = timesMs[2 * i];
        }
        for (long[] values : curves.values()) {
            for (int i = 1; i < kept; i++) {
                values[i] = values[2 * i];
            }
            Arrays.fill(values, kept, POINTS, 0);
        }
        points = kept;
    }

    /** Takes a sample of all values. */
    void sample(long timeMs, SampledMigration from) {
        int at = points++;
        timesMs[at] = timeMs;
        for (SampledValue value : SampledValue.values()) {
            long bytes = from.bytes(value);
            if (bytes >= 0) {
                curve(value, SampleCurve.JOB)[at] = bytes;
            }
        }
        from.ranks((value, rank, bytes) -> take(at, value, rank, bytes));
    }

    private void take(int at, SampledValue value, int rank, long bytes) {
        boolean isOwn = ranks.contains(rank);
        if (!isOwn && ranks.size() < MigrationSamples.MAX_RANKS) {
            ranks.add(rank);
            isOwn = true;
        }
        if (isOwn) {
            curve(value, rank)[at] = bytes;
            return;
        }
        long[] most = curve(value, SampleCurve.MOST_OF_OTHERS);
        long[] least = curve(value, SampleCurve.LEAST_OF_OTHERS);
        // Bands count from 1, so that 0 means no value yet.
        boolean isFirst = least[at] == 0 && most[at] == 0;
        least[at] = isFirst ? bytes + 1 : Math.min(least[at], bytes + 1);
        most[at] = isFirst ? bytes + 1 : Math.max(most[at], bytes + 1);
    }

    private long[] curve(SampledValue value, int rank) {
        return curves.computeIfAbsent(new CurveKey(value, rank), missing -> new long[POINTS]);
    }

    MigrationSamples samples() {
        List<SampleCurve> all = new ArrayList<>();
        curves.forEach((key, values) -> {
            long base = key.rank() < SampleCurve.JOB ? 1 : 0;
            all.add(new SampleCurve(
                    key.value(),
                    key.rank(),
                    Arrays.stream(values, 0, points)
                            .map(bytes -> Math.max(0, bytes - base))
                            .boxed()
                            .toList()));
        });
        return new MigrationSamples(
                startEpochMs, Arrays.stream(timesMs, 0, points).boxed().toList(), all);
    }
}
