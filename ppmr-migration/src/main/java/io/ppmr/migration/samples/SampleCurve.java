package io.ppmr.migration.samples;

import java.util.List;

/**
 * A value over time. Immutable.
 *
 * @param rank the rank, {@link #JOB}, or {@link #LEAST_OF_OTHERS} and {@link #MOST_OF_OTHERS} of the ranks that have no
 *     curve of their own
 * @param bytes the value at each time of the samples
 */
public record SampleCurve(SampledValue value, int rank, List<Long> bytes) {
    /** The whole job. */
    public static final int JOB = -1;
    /** The least value of the ranks that have no curve of their own. */
    public static final int LEAST_OF_OTHERS = -2;
    /** The largest value of these ranks. */
    public static final int MOST_OF_OTHERS = -3;

    public SampleCurve {
        bytes = List.copyOf(bytes);
    }

    /** Returns the last value. */
    public long last() {
        return bytes.isEmpty() ? 0 : bytes.get(bytes.size() - 1);
    }
}
