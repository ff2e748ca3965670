package io.ppmr.migration;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** The time for which an idle migration's thread may sleep. An open migration must not keep a node busy. */
public final class QuietPoll {
    private static final long LONGEST_MS = TimeUnit.SECONDS.toMillis(10);

    private QuietPoll() {}

    /**
     * Returns the milliseconds until the next work, within bounds.
     *
     * @param dueNs nanoseconds until the next work
     * @param leastMs lower bound, so that work that fails does not make the thread spin
     * @param silenceLimit time after which a thread that did not run counts as frozen; half of it is the upper
     *     bound
     */
    public static long clampMs(long dueNs, long leastMs, Duration silenceLimit) {
        long mostMs = Math.min(LONGEST_MS, silenceLimit.toMillis() / 2);
        return Math.max(leastMs, Math.min(mostMs, TimeUnit.NANOSECONDS.toMillis(dueNs) + 1));
    }
}
