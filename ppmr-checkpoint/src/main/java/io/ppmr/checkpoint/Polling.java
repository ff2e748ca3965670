package io.ppmr.checkpoint;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/**
 * Waits for a condition outside of this JVM without a notification, such as a process's state in {@code /proc}. Any
 * thread.
 */
public final class Polling {
    private static final long FIRST_PAUSE_NS = 200_000;
    private static final long LONGEST_PAUSE_NS = 20_000_000;

    /** A check of the condition. It can fail with {@code E}. */
    @FunctionalInterface
    public interface Condition<E extends Exception> {
        boolean holds() throws E;
    }

    private Polling() {}

    /**
     * Checks repeatedly, with growing pauses, until the condition holds or the time is over. An interrupt shortens the
     * pauses and stays set.
     *
     * @return true if the condition held
     */
    public static <E extends Exception> boolean until(Duration limit, Condition<E> condition) throws E {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        for (long pauseNs = FIRST_PAUSE_NS; !condition.holds(); pauseNs = Math.min(LONGEST_PAUSE_NS, pauseNs * 2)) {
            if (System.nanoTime() - deadlineNs >= 0) {
                return false;
            }
            LockSupport.parkNanos(pauseNs);
        }
        return true;
    }
}
