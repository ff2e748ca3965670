package io.ppmr.bench;

import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** Waits for a condition, with a deadline. */
final class Waiting {
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(2);

    private Waiting() {}

    static void until(Duration limit, String what, BooleanSupplier condition) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - deadlineNs > 0) {
                throw new IOException("waited " + limit + " for " + what + ", in vain");
            }
            LockSupport.parkNanos(LOOK_NS);
            if (Thread.interrupted()) {
                throw new InterruptedException("interrupted while waiting for " + what);
            }
        }
    }
}
