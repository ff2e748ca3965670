package io.ppmr.fuse;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;

/** Polls a condition with a deadline. */
final class Await {
    /** As many times longer as the property says, for a machine that is busy otherwise. */
    private static final long DEADLINE_S = 60L * Integer.getInteger("ppmr.patience", 1);

    private static final long POLL_NS = TimeUnit.MILLISECONDS.toNanos(10);

    private Await() {}

    interface Condition {
        boolean holds() throws Exception;
    }

    static void until(String what, Condition condition) throws Exception {
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_S);
        while (!condition.holds()) {
            if (System.nanoTime() - deadlineNs >= 0) {
                throw new TimeoutException("not within " + DEADLINE_S + " s: " + what);
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }
}
