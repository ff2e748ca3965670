package io.ppmr.transport.rdma;

import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Closes a connection once, after its owner closed it and its thread ended. The later of the two runs the steps, so a
 * late thread closes the connection itself.
 */
final class Teardown {
    private static final Logger LOG = LoggerFactory.getLogger(Teardown.class);

    private final Runnable steps;
    private boolean threadEnded;
    private boolean closed;

    Teardown(Runnable steps) {
        this.steps = steps;
    }

    /** Called by the connection's own thread, as its last step. */
    void onThreadEnd() {
        boolean last;
        synchronized (this) {
            threadEnded = true;
            last = closed;
        }
        if (last) {
            steps.run();
        }
    }

    /** Called once by the owner: waits for the thread. An interrupt of the owner does not shorten the wait. */
    void close(Thread thread, long limitMillis, String path) {
        boolean interrupted = Thread.interrupted();
        long deadlineNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMillis);
        while (thread.isAlive() && System.nanoTime() - deadlineNs < 0) {
            try {
                thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime())));
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        boolean last;
        synchronized (this) {
            closed = true;
            last = threadEnded;
        }
        if (last) {
            steps.run();
        } else {
            LOG.error(
                    "{} did not end within {} ms: its RDMA connection ({}) is closed when it ends",
                    thread.getName(),
                    limitMillis,
                    path);
        }
    }
}
