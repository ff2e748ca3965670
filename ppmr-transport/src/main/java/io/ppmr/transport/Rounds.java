package io.ppmr.transport;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Counts how often an agent has gone round, so that others see whether it still does. Counted by the agent, read by
 * anybody.
 */
public final class Rounds {
    private static final long POLL_NS = TimeUnit.MILLISECONDS.toNanos(10);

    private final AtomicLong count = new AtomicLong();

    /** One more; by the agent's thread. */
    public void increment() {
        count.lazySet(count.get() + 1);
    }

    /**
     * Waits for the next round.
     *
     * @param over whether the agent has ended, and none is to be waited for
     * @return false if the agent stood still for the whole limit
     */
    public boolean goesOn(long limitNs, BooleanSupplier over) {
        long before = count.get();
        long deadlineNs = System.nanoTime() + limitNs;
        while (count.get() == before && !over.getAsBoolean()) {
            if (System.nanoTime() - deadlineNs >= 0) {
                return false;
            }
            LockSupport.parkNanos(POLL_NS);
        }
        return true;
    }
}
