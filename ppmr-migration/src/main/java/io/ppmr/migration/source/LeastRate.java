package io.ppmr.migration.source;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * Detects checkpoints that write too little while nothing blocks them. Otherwise a user could stop the tool, write some
 * bytes now and then, and keep all other jobs from being moved. Time in which a call waits for the pool, the network or
 * the target does not count, but its bytes do. Owned by the migration's thread.
 */
final class LeastRate {
    /** Number of samples in the observed time. */
    private static final int NOTES = 30;

    private final long leastRate;
    private final long windowNs;
    private final long[] bytesAt = new long[NOTES + 1];
    private long noted;

    /**
     * @param leastRate required bytes per second
     *
     * @param rateTime time over which the rate is measured
     */
    LeastRate(long leastRate, Duration rateTime) {
        this.leastRate = leastRate;
        windowNs = rateTime.toNanos();
    }

    /**
     * Notes the progress of the checkpoints.
     *
     * @param idleNs total time in which they could write and none of their calls was under way
     * @param bytes total bytes that they wrote
     * @return why they are too slow, or empty while they are not
     */
    Optional<String> whyTooSlow(long idleNs, long bytes) {
        long now = idleNs / (windowNs / NOTES);
        // This is the latest sample that is as old as the measured time. It may be older, if the calls were rarer.
        long since = Math.min(noted, now - NOTES);
        long written = since < 0 ? Long.MAX_VALUE : bytes - bytesAt[(int) (since % bytesAt.length)];
        for (; noted < now; noted++) {
            bytesAt[(int) ((noted + 1) % bytesAt.length)] = bytes;
        }
        long seconds = TimeUnit.NANOSECONDS.toSeconds(windowNs);
        return leastRate == 0 || written >= TimeUnit.NANOSECONDS.toMillis(windowNs) * leastRate / 1000
                ? Optional.empty()
                : Optional.of("its checkpoints wrote " + written + " bytes in " + seconds
                        + " s in which neither pool, network nor target blocked them; the minimum is " + leastRate
                        + " bytes per second (min_rate). Remedy: find out what the checkpoint command waits for;"
                        + " if it needs this time, set a smaller min_rate in the source's configuration");
    }
}
