package io.ppmr.daemon.service;

import io.ppmr.migration.RequestException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Limits the rate of the migrations that each user starts of own jobs. The journal keeps their outcomes for a month, so
 * their number in a month has a bound. On average it is one in ten seconds, or one in ten minutes for a user whose
 * migrations only fail. Times are of the monotonic clock. It is for any thread.
 */
final class OwnerPace {
    /** The number of migrations that a user may start without a pause. */
    private static final int BURST = 200;

    private static final long INTERVAL_NS = TimeUnit.SECONDS.toNanos(10);
    /** The number of consecutive failures without a pause. */
    private static final int FREE_FAILURES = 3;

    private static final long FIRST_REST_NS = TimeUnit.SECONDS.toNanos(1);
    private static final int MOST_DOUBLINGS = 10;
    private static final long LONGEST_REST_NS = TimeUnit.MINUTES.toNanos(10);
    /** The time without a migration after which the failures of a user are reset. */
    private static final long FORGOTTEN_NS = TimeUnit.HOURS.toNanos(1);

    private static final class User {
        /** The time at which the started migrations would be over if each took an interval. */
        private long paidUntilNs;
        /** The number of consecutive failures. */
        private int failures;

        private long lastNs;

        private User(long nowNs) {
            paidUntilNs = nowNs;
            lastNs = nowNs;
        }

        private long restEndNs() {
            if (failures <= FREE_FAILURES) {
                return lastNs;
            }
            int doublings = Math.min(failures - FREE_FAILURES - 1, MOST_DOUBLINGS);
            return lastNs + Math.min(LONGEST_REST_NS, FIRST_REST_NS << doublings);
        }
    }

    private final Map<String, User> users = new HashMap<>();

    /** Records that a user starts a migration. If it is too soon, throws with the time of the next one. */
    synchronized void start(String name, long nowNs) throws RequestException {
        users.values().removeIf(user -> nowNs - user.lastNs > FORGOTTEN_NS && nowNs - user.paidUntilNs > 0);
        User user = users.computeIfAbsent(name, unknown -> new User(nowNs));
        long restNs = user.restEndNs() - nowNs;
        if (restNs > 0) {
            throw new RequestException("the last " + user.failures + " migrations that user " + name + " has started"
                    + " moved nothing, so the next may be started in " + seconds(restNs) + " s. Remedy: see in the"
                    + " report why they fail");
        }
        long aheadNs = Math.max(0, user.paidUntilNs - nowNs);
        long waitNs = aheadNs - (BURST - 1) * INTERVAL_NS;
        if (waitNs > 0) {
            throw new RequestException("user " + name + " has started " + BURST + " migrations in a short time, so the"
                    + " next may be started in " + seconds(waitNs) + " s. Remedy: wait, or have the operator start it");
        }
        user.paidUntilNs = nowNs + aheadNs + INTERVAL_NS;
        user.lastNs = nowNs;
    }

    /** Records the end of a migration that a user started. */
    synchronized void ended(String name, boolean moved, long nowNs) {
        User user = users.computeIfAbsent(name, unknown -> new User(nowNs));
        user.failures = moved ? 0 : user.failures + 1;
        user.lastNs = nowNs;
    }

    private static long seconds(long ns) {
        return TimeUnit.NANOSECONDS.toSeconds(ns) + 1;
    }
}
