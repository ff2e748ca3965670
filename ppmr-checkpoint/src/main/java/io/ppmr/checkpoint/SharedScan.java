package io.ppmr.checkpoint;

import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * A costly look at the node that many threads want at once, such as one at all processes. Each gets a look that has
 * begun after it asked, never an older one, and all that wait share the next. The more have shared the last one, the
 * longer the next is put off, so that a thousand ranks do not look without a pause; who is alone never waits.
 *
 * <p>For any thread. A look that fails is the failure of the thread that made it; those that wait look themselves.
 */
final class SharedScan<T> {
    /** Shared scans take at most this fraction (1/n) of one core. */
    private static final int LONGEST_PAUSE = 4;

    /** A scan that takes longer than this hangs: each waiting thread then makes its own. */
    private static final long WAIT_LIMIT_NS = TimeUnit.SECONDS.toNanos(20);

    private final Supplier<T> looks;
    private long begun;
    private long doneNumber;
    private T done;
    private boolean busy;
    private int waiting;
    private long notBeforeNs = System.nanoTime();

    /** @param looks makes one; no lock is held meanwhile */
    SharedScan(Supplier<T> looks) {
        this.looks = looks;
    }

    /** Returns a look that has begun after this call. An interrupt shortens no wait and stays set. */
    T scan() {
        long deadlineNs = System.nanoTime() + WAIT_LIMIT_NS;
        boolean interrupted = false;
        long number = 0;
        synchronized (this) {
            long wanted = begun + 1;
            waiting++;
            try {
                while (doneNumber < wanted && number == 0) {
                    long nowNs = System.nanoTime();
                    long leftNs = busy ? deadlineNs - nowNs : notBeforeNs - nowNs;
                    if (leftNs > 0) {
                        try {
                            TimeUnit.NANOSECONDS.timedWait(this, leftNs);
                        } catch (InterruptedException e) {
                            interrupted = true;
                        }
                    } else if (busy) {
                        break;
                    } else {
                        busy = true;
                        begun++;
                        number = begun;
                    }
                }
                if (number == 0 && doneNumber >= wanted) {
                    return done;
                }
            } finally {
                waiting--;
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }
        return number == 0 ? looks.get() : scanForAll(number);
    }

    private T scanForAll(long number) {
        long startNs = System.nanoTime();
        int shared;
        synchronized (this) {
            shared = waiting;
        }
        T found = null;
        try {
            found = looks.get();
            return found;
        } finally {
            synchronized (this) {
                long endNs = System.nanoTime();
                busy = false;
                if (found != null) {
                    done = found;
                    doneNumber = number;
                    notBeforeNs = endNs + (endNs - startNs) * Math.min(LONGEST_PAUSE, shared);
                }
                notifyAll();
            }
        }
    }
}
