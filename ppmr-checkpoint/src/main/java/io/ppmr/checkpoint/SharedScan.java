package io.ppmr.checkpoint;

import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * A costly scan of the node that many threads need at once, such as one of all processes. Each thread gets a scan that
 * began after its request, never an older one, and all waiting threads share the next. The more threads shared the last
 * scan, the later the next one begins, so that a thousand ranks do not scan without a pause. A single thread never
 * waits.
 *
 * <p>For any thread. A failed scan is the failure of the thread that made it. Waiting threads then make their own.
 */
final class SharedScan<T> {
    /** Shared scans take at most this fraction (1/n) of one core. */
    private static final int LONGEST_PAUSE = 4;

    /** A scan that takes longer than this hangs: each waiting thread then makes its own. */
    private static final long WAIT_LIMIT_NS = TimeUnit.SECONDS.toNanos(20);

    private final Supplier<T> scanner;
    private long begun;
    private long doneNumber;
    private T done;
    private boolean busy;
    private int waiting;
    private long notBeforeNs = System.nanoTime();

    /** @param scanner makes a scan; no lock is held during it */
    SharedScan(Supplier<T> scanner) {
        this.scanner = scanner;
    }

    /** Returns a scan that began after this call. An interrupt shortens no wait and stays set. */
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
        return number == 0 ? scanner.get() : scanForAll(number);
    }

    private T scanForAll(long number) {
        long startNs = System.nanoTime();
        int shared;
        synchronized (this) {
            shared = waiting;
        }
        T found = null;
        try {
            found = scanner.get();
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
