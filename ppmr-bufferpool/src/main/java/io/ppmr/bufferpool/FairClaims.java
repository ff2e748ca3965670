package io.ppmr.bufferpool;

import java.util.ArrayDeque;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Claims chunks of a {@link BufferPool} for threads that may wait, in the order of their claims.
 *
 * <p>While chunks are free, a claim goes directly to the pool, without a lock. Once a thread waits, later threads queue
 * behind it, and a release assigns its chunk to the first thread in the queue. A wait ends with a chunk, at the
 * deadline, or when {@link #fail} is called. Every thread may call every method.
 */
public final class FairClaims {
    /** Result of a claim: no chunk became free before the deadline. */
    public static final int TIMED_OUT = -2;

    /** Result of a claim: {@link #fail} was called. */
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

    /** Returns the number of threads that wait for a chunk. */
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

    /** Releases a READY chunk and assigns it to the first waiting thread, if there is one. */
    public void release(int chunk) {
        pool.release(chunk);
        serveWaiters();
    }

    /** Releases a FILLING chunk that holds no bytes. */
    public void releaseUnused(int chunk) {
        pool.releaseUnused(chunk);
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

    /** Allows claims again after {@link #fail}. No thread may be waiting. */
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
            // A chunk released before "waiting" was raised is on the stack and not assigned to a thread.
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
            long remainingNs = deadlineNs - System.nanoTime();
            if (failed || remainingNs <= 0) {
                queue.remove(waiter);
                waiting = queue.size();
                return failed ? FAILED : TIMED_OUT;
            }
            try {
                waiter.arrived.awaitNanos(remainingNs);
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
