package io.ppmr.migration.source;

import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;

/**
 * The time for which a job has been stopped, and its report. While the job is stopped, people get a report every ten
 * seconds, even if the migration's thread waits for a hook, a target or a command. It has its own thread while the job
 * is stopped. Any thread.
 */
final class PauseWatch {
    private static final long REPORT_NS = TimeUnit.SECONDS.toNanos(10);
    private static final long COMPUTES = 0;

    private final long reportNs;
    private final LongConsumer reporter;
    private long sinceNs = COMPUTES;

    /** @param reporter reports the nanoseconds for which the job has been stopped, on a thread of its own */
    PauseWatch(LongConsumer reporter) {
        this(REPORT_NS, reporter);
    }

    /** @param reportNs interval of the reports */
    PauseWatch(long reportNs, LongConsumer reporter) {
        this.reportNs = reportNs;
        this.reporter = reporter;
    }

    /** Notes that the job is stopped from now on. */
    synchronized void start() {
        if (sinceNs == COMPUTES) {
            long nowNs = System.nanoTime();
            sinceNs = nowNs == COMPUTES ? 1 : nowNs;
            long since = sinceNs;
            Thread thread = new Thread(() -> reportUntilEnd(since), "ppmr-standstill");
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** Notes that the job computes again, or that the reports must end. */
    synchronized void stop() {
        sinceNs = COMPUTES;
        notifyAll();
    }

    /** Returns how long the job has been stopped, or 0 while it computes. */
    synchronized long stoppedNs() {
        return sinceNs == COMPUTES ? 0 : System.nanoTime() - sinceNs;
    }

    private void reportUntilEnd(long since) {
        try {
            for (long stoppedNs = reportNs; lasts(since, stoppedNs); stoppedNs += reportNs) {
                reporter.accept(System.nanoTime() - since);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Waits until the stop that began then has lasted for that time. Returns false if it ended before. */
    private synchronized boolean lasts(long since, long stoppedNs) throws InterruptedException {
        long leftNs = since + stoppedNs - System.nanoTime();
        while (sinceNs == since && leftNs > 0) {
            wait(TimeUnit.NANOSECONDS.toMillis(leftNs) + 1);
            leftNs = since + stoppedNs - System.nanoTime();
        }
        return sinceNs == since;
    }
}
