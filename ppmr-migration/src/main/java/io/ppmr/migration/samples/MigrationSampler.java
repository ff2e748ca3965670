package io.ppmr.migration.samples;

import io.ppmr.linux.LogContext;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Samples one migration on a thread of its own, from {@link #start} to {@link #end}, and keeps the samples afterwards.
 * It reads counters only, so it costs the migration nothing, and writes nothing while the job is stopped. If it cannot
 * write, the migration has no samples.
 */
public final class MigrationSampler {
    private static final Logger LOG = LoggerFactory.getLogger(MigrationSampler.class);
    private static final long FIRST_INTERVAL_NS = TimeUnit.MILLISECONDS.toNanos(10);
    /** Time for which writing waits until the job continues. A job in doubt may be stopped for days. */
    private static final long PAUSE_LIMIT_NS = TimeUnit.SECONDS.toNanos(10);

    private static final long PAUSE_LOOK_NS = TimeUnit.MILLISECONDS.toNanos(50);

    private final String id;
    private final SampledMigration migration;
    private final SampleStore store;
    private boolean ended;

    /** @param store keeps the samples */
    public MigrationSampler(String id, SampledMigration migration, SampleStore store) {
        this.id = id;
        this.migration = migration;
        this.store = store;
    }

    /** Begins to sample. Does nothing after {@link #end}. */
    public synchronized void start() {
        if (!ended) {
            Thread thread = LogContext.thread(this::run, "ppmr-samples");
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** Ends the sampling; the samples are written soon after that, on the sampler's thread. May be called twice. */
    public synchronized void end() {
        ended = true;
        notifyAll();
    }

    private void run() {
        try (LogContext.Scope about = LogContext.migration(id)) {
            MigrationSamples samples = sampled();
            awaitPauseEnd();
            store.save(id, samples);
        } catch (IOException e) {
            LOG.warn("migration {}: its samples are not kept, and a report has no curves: {}", id, e.toString());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private MigrationSamples sampled() throws InterruptedException {
        long startNs = System.nanoTime();
        SampleRecorder recorder = new SampleRecorder(System.currentTimeMillis());
        long intervalNs = FIRST_INTERVAL_NS;
        boolean isLast = false;
        while (true) {
            if (recorder.isFull()) {
                recorder.thin();
                intervalNs *= 2;
            }
            recorder.sample(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs), migration);
            if (isLast) {
                return recorder.samples();
            }
            isLast = awaitEnd(intervalNs);
        }
    }

    /** Waits for the end or the next sample. Returns whether it is the end. */
    private synchronized boolean awaitEnd(long limitNs) throws InterruptedException {
        long deadlineNs = System.nanoTime() + limitNs;
        for (long leftNs = limitNs; !ended && leftNs > 0; leftNs = deadlineNs - System.nanoTime()) {
            TimeUnit.NANOSECONDS.timedWait(this, leftNs);
        }
        return ended;
    }

    private synchronized void awaitPauseEnd() throws InterruptedException {
        long deadlineNs = System.nanoTime() + PAUSE_LIMIT_NS;
        while (migration.isPaused() && deadlineNs - System.nanoTime() > 0) {
            TimeUnit.NANOSECONDS.timedWait(this, PAUSE_LOOK_NS);
        }
    }
}
