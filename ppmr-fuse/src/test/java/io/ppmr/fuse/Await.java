package io.ppmr.fuse;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Polls a condition with a deadline. */
final class Await {
    private static final long DEADLINE_NS = TimeUnit.SECONDS.toNanos(60);
    private static final long POLL_NS = TimeUnit.MILLISECONDS.toNanos(10);

    private Await() {}

    interface Condition {
        boolean holds() throws Exception;
    }

    static void until(String what, Condition condition) throws Exception {
        long deadlineNs = System.nanoTime() + DEADLINE_NS;
        while (!condition.holds()) {
            if (System.nanoTime() - deadlineNs >= 0) {
                throw new AssertionError("not within 60 s: " + what);
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }
}
