package io.ppmr.cluster.job;

import io.ppmr.linux.LogContext;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends one report after the other to the active controller, each again and again until the next one replaces it.
 * Controllers take a repeated report as one. It has a thread from its making to its end.
 */
final class RepeatedReport implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(RepeatedReport.class);
    private static final Duration AGAIN = Duration.ofSeconds(1);
    /**
     * The first interval after a failure, doubled with each further one. A thousand members report at one moment, and a
     * controller refuses those for which it has no place: pods must not be held a second longer for that.
     */
    private static final Duration AGAIN_SOON = Duration.ofMillis(100);
    /** The interval after a controller has answered: another one may become the active one. */
    private static final Duration AGAIN_LATER = Duration.ofSeconds(5);

    private static final long JOIN_MS = 100;

    private final ActiveController controllers;
    private final RareLog log = new RareLog(LOG::info);
    private final Thread thread = LogContext.thread(this::run, "ppmr-job-report");
    /** Guarded by this. */
    private JobQuestion.StepReport report;

    private boolean isNew;
    private boolean isAnswered;
    private boolean isClosed;
    private Duration pause = AGAIN_SOON;

    RepeatedReport(ActiveController controllers) {
        this.controllers = controllers;
        thread.start();
    }

    /** Sends this report from now on. */
    synchronized void send(JobQuestion.StepReport next) {
        report = next;
        isNew = true;
        isAnswered = false;
        pause = AGAIN_SOON;
        notifyAll();
    }

    /** Waits until a controller has answered the present report. Returns false after the limit. */
    synchronized boolean awaitAnswer(Duration limit) throws InterruptedException {
        long endNs = System.nanoTime() + limit.toNanos();
        for (long leftNs = limit.toNanos(); !isAnswered && leftNs > 0; leftNs = endNs - System.nanoTime()) {
            TimeUnit.NANOSECONDS.timedWait(this, leftNs);
        }
        return isAnswered;
    }

    private void run() {
        try {
            for (JobQuestion.StepReport next = next(); next != null; next = next()) {
                boolean isDone = false;
                try {
                    JobQuestion.Answer answer = controllers.ask(next);
                    isDone = true;
                    if (answer.refusal() != null) {
                        log.write("refused", "a report about job " + next.job() + ": " + answer.refusal());
                    }
                } catch (IOException | RequestException e) {
                    log.write("report", "no controller takes a report about job " + next.job() + ": " + e.getMessage());
                }
                noteSent(next, isDone);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private synchronized void noteSent(JobQuestion.StepReport sent, boolean isDone) {
        if (isDone && sent.equals(report)) {
            isAnswered = true;
            notifyAll();
        } else if (!isDone) {
            Duration longer = pause.multipliedBy(2);
            pause = longer.compareTo(AGAIN) < 0 ? longer : AGAIN;
        }
    }

    /** Returns the report that is due; null at the end. */
    private synchronized JobQuestion.StepReport next() throws InterruptedException {
        long endNs = System.nanoTime() + (isAnswered ? AGAIN_LATER.toNanos() : jittered(pause.toNanos()));
        while (!isClosed && !isNew) {
            long leftNs = endNs - System.nanoTime();
            if (report != null && leftNs <= 0) {
                return report;
            }
            TimeUnit.NANOSECONDS.timedWait(this, report == null ? AGAIN.toNanos() : leftNs);
        }
        isNew = false;
        return isClosed ? null : report;
    }

    /** Members that were refused at one moment do not return at one moment. */
    private static long jittered(long nanos) {
        return nanos / 2 + ThreadLocalRandom.current().nextLong(nanos / 2 + 1);
    }

    @Override
    public void close() {
        synchronized (this) {
            isClosed = true;
            notifyAll();
        }
        thread.interrupt();
        try {
            thread.join(JOIN_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
