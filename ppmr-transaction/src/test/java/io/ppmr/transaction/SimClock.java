package io.ppmr.transaction;

import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.concurrent.TimeUnit;

/** Virtual time with a queue of actions. Actions of one time run in the order in which they were added. */
final class SimClock {
    private record Due(long atNs, long number, Runnable action) {}

    /** Not 0, like the clock of a machine that was booted some time ago. */
    long nowNs = TimeUnit.HOURS.toNanos(1);

    private final PriorityQueue<Due> queue =
            new PriorityQueue<>(Comparator.comparingLong(Due::atNs).thenComparingLong(Due::number));
    private long number;

    void at(long atNs, Runnable action) {
        queue.add(new Due(Math.max(atNs, nowNs), number++, action));
    }

    void after(long delayNs, Runnable action) {
        at(nowNs + delayNs, action);
    }

    /** Runs the next action. Returns false if there is none before that time. */
    boolean step(long untilNs) {
        Due due = queue.peek();
        if (due == null || due.atNs() > untilNs) {
            return false;
        }
        queue.poll();
        nowNs = due.atNs();
        due.action().run();
        return true;
    }
}
