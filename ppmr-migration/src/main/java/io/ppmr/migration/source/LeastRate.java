package io.ppmr.migration.source;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * Tells when the checkpoints of a job write too little while nothing holds them up: a user who stops the tool and
 * writes some bytes now and then would keep all others from being moved. Time in which a call of theirs waits for the
 * pool, the network or the target does not count, and the bytes that are written in it do. Owned by the migration's
 * thread.
 */
final class LeastRate {
    /** Number of samples in the observed time. */
    private static final int NOTES = 30;

    private final long leastRate;
    private final long windowNs;
    private final long[] bytesAt = new long[NOTES + 1];
    private long noted;

    /**
     * @param leastRate how many bytes a second are wanted
     * @param rateTime over how much time that is counted
     */
    LeastRate(long leastRate, Duration rateTime) {
        this.leastRate = leastRate;
        windowNs = rateTime.toNanos();
    }

    /**
     * Takes notice of how far the checkpoints are.
     *
     * @param idleNs the time so far in which they could write and no call of theirs was under way
     * @param bytes how much they have written so far
     * @return why they are too slow; empty while they are not
     */
    Optional<String> tooSlow(long idleNs, long bytes) {
        long now = idleNs / (windowNs / NOTES);
        // The latest note that is as old as the time which counts; an older one if this was not called for as long.
        long since = Math.min(noted, now - NOTES);
        long written = since < 0 ? Long.MAX_VALUE : bytes - bytesAt[(int) (since % bytesAt.length)];
        for (; noted < now; noted++) {
            bytesAt[(int) ((noted + 1) % bytesAt.length)] = bytes;
        }
        long seconds = TimeUnit.NANOSECONDS.toSeconds(windowNs);
        return leastRate == 0 || written >= TimeUnit.NANOSECONDS.toMillis(windowNs) * leastRate / 1000
                ? Optional.empty()
                : Optional.of("its checkpoints wrote " + written + " bytes in " + seconds
                        + " s in which neither the pool nor the network nor the target held them up, and " + leastRate
                        + " bytes a second are the least (min_rate). Remedy: see what the checkpoint command waits for;"
                        + " if it needs this time, set a smaller min_rate in the source's configuration");
    }
}
