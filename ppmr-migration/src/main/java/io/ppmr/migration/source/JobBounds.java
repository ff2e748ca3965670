package io.ppmr.migration.source;

import io.ppmr.checkpoint.RightsBounds;
import java.time.Duration;

/**
 * Bounds the part of a migration that the job's user decides. Immutable.
 *
 * @param rankFiles how many files the processes of a rank may have open or mapped in all; as many threads
 * @param leastRate how many bytes a second the job's checkpoints write at least while nothing holds them up; 0 for no
 *     such bound
 * @param rateTime over how much of such time that is counted
 */
public record JobBounds(int rankFiles, long leastRate, Duration rateTime) {
    /** The usual ones. */
    public static final JobBounds USUAL = new JobBounds(RightsBounds.USUAL_FILES, 1 << 20, Duration.ofSeconds(30));
}
