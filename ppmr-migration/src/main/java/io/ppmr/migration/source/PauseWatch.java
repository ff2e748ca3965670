package io.ppmr.migration.source;

import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;

/**
 * The time that a job has been stopped, and its announcement: as long as it does, people are told every ten seconds,
 * whatever the migration's thread waits for meanwhile (a hook, a target, a command that does not end). It has a thread
 * of its own, while the job is stopped. Any thread.
 */
final class PauseWatch {
    private static final long SAY_NS = TimeUnit.SECONDS.toNanos(10);
    private static final long COMPUTES = 0;

    private final long sayNs;
    private final LongConsumer says;
    private long sinceNs = COMPUTES;

    /** @param says tells people for how many nanoseconds the job has been stopped; on a thread of its own */
    PauseWatch(LongConsumer says) {
        this(SAY_NS, says);
    }

    /** @param sayNs how often it is said */
    PauseWatch(long sayNs, LongConsumer says) {
        this.sayNs = sayNs;
        this.says = says;
    }

    /** Notes that the job is stopped from now on. */
    synchronized void begins() {
        if (sinceNs == COMPUTES) {
            long nowNs = System.nanoTime();
            sinceNs = nowNs == COMPUTES ? 1 : nowNs;
            long since = sinceNs;
            Thread thread = new Thread(() -> sayOf(since), "ppmr-standstill");
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** Notes that the job computes again, or that announcements must end. */
    synchronized void ends() {
        sinceNs = COMPUTES;
        notifyAll();
    }

    /** Gives for how long it has been stopped; 0 while it computes. */
    synchronized long stillNs() {
        return sinceNs == COMPUTES ? 0 : System.nanoTime() - sinceNs;
    }

    private void sayOf(long since) {
        try {
            for (long stillNs = sayNs; lasts(since, stillNs); stillNs += sayNs) {
                says.accept(System.nanoTime() - since);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Waits until the job has been stopped for that time, since then; false if it has not. */
    private synchronized boolean lasts(long since, long stillNs) throws InterruptedException {
        long leftNs = since + stillNs - System.nanoTime();
        while (sinceNs == since && leftNs > 0) {
            wait(TimeUnit.NANOSECONDS.toMillis(leftNs) + 1);
            leftNs = since + stillNs - System.nanoTime();
        }
        return sinceNs == since;
    }
}
