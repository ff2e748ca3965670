package io.ppmr.bufferpool;

import java.util.ArrayDeque;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Claims chunks of a {@link BufferPool} for threads that may wait, in the order in which they came.
 *
 * <p>While chunks are free a claim is the pool's own, without a lock. Once a thread waits, later ones queue behind it,
 * and a release hands its chunk to the first in the queue. Waiting ends with a chunk, at the deadline, or when
 * {@link #fail} is called; every thread may call every method.
 */
public final class FairClaims {
    /** No chunk came before the deadline. */
    public static final int TIMED_OUT = -2;

    /** {@link #fail} was called. */
    public static final int FAILED = -3;

    private final BufferPool pool;
    private final ReentrantLock lock = new ReentrantLock();
    private final ArrayDeque<Waiter> queue = new ArrayDeque<>();
    private final ArrayDeque<Waiter> spare = new ArrayDeque<>();
    private volatile int waiting;
    private volatile boolean failed;

    public FairClaims(BufferPool pool) {
        this.pool = pool;
    }

    /** Returns how many threads wait for a chunk now. */
    public int waiting() {
        return waiting;
    }

    /**
     * Claims a chunk, waiting for one until {@code deadlineNs} of {@link System#nanoTime}.
     *
     * @return the chunk, {@link #TIMED_OUT} or {@link #FAILED}
     */
    public int claim(long deadlineNs) {
        if (failed) {
            return FAILED;
        }
        if (waiting == 0) {
            int chunk = pool.tryClaim();
            if (chunk != BufferPool.NONE) {
                return chunk;
            }
        }
        return claimInTurn(deadlineNs);
    }

    /** Gives a READY chunk back, to the first that waits if one does. */
    public void release(int chunk) {
        pool.release(chunk);
        serveWaiters();
    }

    /** Gives a FILLING chunk back that nothing was put into. */
    public void giveUp(int chunk) {
        pool.giveUp(chunk);
        serveWaiters();
    }

    /** Ends every wait and every later claim with {@link #FAILED}, until {@link #reset}. */
    public void fail() {
        lock.lock();
        try {
            failed = true;
            for (Waiter waiter : queue) {
                waiter.arrived.signal();
            }
        } finally {
            lock.unlock();
        }
    }

    /** Allows claims again after {@link #fail}; no thread may be waiting. */
    public void reset() {
        failed = false;
    }

    private int claimInTurn(long deadlineNs) {
        lock.lock();
        try {
            Waiter waiter = spare.isEmpty() ? new Waiter(lock.newCondition()) : spare.pop();
            waiter.chunk = BufferPool.NONE;
            queue.addLast(waiter);
            waiting = queue.size();
            // A chunk released before "waiting" was raised is on the stack, not in anybody's hand.
            handOut();
            int result = awaitChunk(waiter, deadlineNs);
            spare.push(waiter);
            return result;
        } finally {
            lock.unlock();
        }
    }

    private int awaitChunk(Waiter waiter, long deadlineNs) {
        while (waiter.chunk == BufferPool.NONE) {
            long leftNs = deadlineNs - System.nanoTime();
            if (failed || leftNs <= 0) {
                queue.remove(waiter);
                waiting = queue.size();
                return failed ? FAILED : TIMED_OUT;
            }
            try {
                waiter.arrived.awaitNanos(leftNs);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                if (waiter.chunk == BufferPool.NONE) {
                    queue.remove(waiter);
                    waiting = queue.size();
                    return FAILED;
                }
            }
        }
        return waiter.chunk;
    }

    private void serveWaiters() {
        if (waiting > 0) {
            lock.lock();
            try {
                handOut();
            } finally {
                lock.unlock();
            }
        }
    }

    private void handOut() {
        while (!queue.isEmpty()) {
            int chunk = pool.tryClaim();
            if (chunk == BufferPool.NONE) {
                return;
            }
            Waiter first = queue.removeFirst();
            waiting = queue.size();
            first.chunk = chunk;
            first.arrived.signal();
        }
    }

    private static final class Waiter {
        private final Condition arrived;
        private int chunk;

        private Waiter(Condition arrived) {
            this.arrived = arrived;
        }
    }
}
