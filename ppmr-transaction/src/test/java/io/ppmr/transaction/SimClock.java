package io.ppmr.transaction;

import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.concurrent.TimeUnit;

/** Virtual time: what is to happen, in order; what is due at once happens in the order in which it was put in. */
final class SimClock {
    private record Due(long atNs, long number, Runnable action) {}

    /** Not 0, as of a machine that has been up for a while. */
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

    /** Lets the next thing happen; false if there is none before that time. */
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
