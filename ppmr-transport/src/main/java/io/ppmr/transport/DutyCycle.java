package io.ppmr.transport;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Counts the cycles of an agent, so that other threads can check whether it still runs. Written by the agent, read by
 * any thread.
 */
public final class DutyCycle {
    private static final long POLL_NS = TimeUnit.MILLISECONDS.toNanos(10);

    private final AtomicLong count = new AtomicLong();

    /** Counts a cycle; on the agent's thread. */
    public void increment() {
        count.lazySet(count.get() + 1);
    }

    /**
     * Waits for the next cycle.
     *
     * @param over whether the agent ended, so that no cycle follows
     * @return false if the agent was blocked for the whole limit
     */
    public boolean awaitNextCycle(long limitNs, BooleanSupplier over) {
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
