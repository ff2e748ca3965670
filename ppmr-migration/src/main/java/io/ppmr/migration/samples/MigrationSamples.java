package io.ppmr.migration.samples;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The curves of a migration at one end. Immutable.
 *
 * @param startEpochMs the time of the first sample, milliseconds since 1970 by this node's clock
 * @param timesMs the time of each sample after the first one, in milliseconds; not decreasing
 * @param curves each with one value for each time
 */
public record MigrationSamples(long startEpochMs, List<Long> timesMs, List<SampleCurve> curves) {
    /** Maximum number of points of a curve. */
    public static final int MAX_POINTS = 200;
    /** Maximum number of ranks with curves of their own. The others have their least and largest values together. */
    public static final int MAX_RANKS = 16;

    public MigrationSamples {
        timesMs = List.copyOf(timesMs);
        curves = List.copyOf(curves);
    }

    /** Returns the curve of a value and a rank, if this end has it. */
    public Optional<SampleCurve> curve(SampledValue value, int rank) {
        return curves.stream()
                .filter(curve -> curve.value() == value && curve.rank() == rank)
                .findFirst();
    }

    /** Returns these samples without every second point. The first and the last one stay. */
    MigrationSamples thinned() {
        return new MigrationSamples(
                startEpochMs,
                thinned(timesMs),
                curves.stream()
                        .map(curve -> new SampleCurve(curve.value(), curve.rank(), thinned(curve.bytes())))
                        .toList());
    }

    private static List<Long> thinned(List<Long> all) {
        List<Long> some = new ArrayList<>();
        for (int i = 0; i < all.size() - 1; i += 2) {
            some.add(all.get(i));
        }
        if (!all.isEmpty()) {
            some.add(all.get(all.size() - 1));
        }
        return some;
    }
}
