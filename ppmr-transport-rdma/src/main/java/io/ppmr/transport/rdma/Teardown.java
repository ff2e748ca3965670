package io.ppmr.transport.rdma;

import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes a connection down once, when its owner has closed it and its thread has ended, on whichever of the two comes
 * last: a thread that ends late takes it down itself.
 */
final class Teardown {
    private static final Logger LOG = LoggerFactory.getLogger(Teardown.class);

    private final Runnable steps;
    private boolean threadEnded;
    private boolean closed;

    Teardown(Runnable steps) {
        this.steps = steps;
    }

    /** The connection's own thread, as its last step. */
    void threadEnds() {
        boolean last;
        synchronized (this) {
            threadEnded = true;
            last = closed;
        }
        if (last) {
            steps.run();
        }
    }

    /** The owner, once: waits for the thread, which an interrupt of the owner does not shorten. */
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
                    "{} has not ended within {} ms: it takes its RDMA connection ({}) down when it ends",
                    thread.getName(),
                    limitMillis,
                    path);
        }
    }
}
