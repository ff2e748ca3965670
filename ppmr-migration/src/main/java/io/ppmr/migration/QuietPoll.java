package io.ppmr.migration;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * The time that a migration's thread may sleep while nothing is under way: an open migration must not keep a node busy.
 */
public final class QuietPoll {
    private static final long LONGEST_MS = TimeUnit.SECONDS.toMillis(10);

    private QuietPoll() {}

    /**
     * Gives the milliseconds until something is due, within bounds.
     *
     * @param dueNs in how many nanoseconds it is
     * @param leastMs what is given at least, so that something that cannot be done does not make it spin
     * @param silenceLimit after which a thread that did not run counts as frozen; half of it is given at most
     */
    public static long clampMs(long dueNs, long leastMs, Duration silenceLimit) {
        long mostMs = Math.min(LONGEST_MS, silenceLimit.toMillis() / 2);
        return Math.max(leastMs, Math.min(mostMs, TimeUnit.NANOSECONDS.toMillis(dueNs) + 1));
    }
}
