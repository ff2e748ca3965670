package io.ppmr.tracing;

import io.ppmr.daemon.history.MigrationHistory;
import io.ppmr.daemon.part.ServicePart.Ready;
import io.ppmr.daemon.part.ServicePart.Running;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.transaction.journal.MappedJournal;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends the trace of each migration when it is over. Its one thread, which ends when no trace waits, reads the
 * journal and the samples, so a migration never waits for a collector. What a collector does not take within some
 * seconds is dropped and counted. It is safe for any thread.
 */
final class MigrationTracer implements Running {
    private static final Logger LOG = LoggerFactory.getLogger(MigrationTracer.class);
    private static final int MAX_WAITING = 64;
    private static final int REMEMBERED = 256;
    private static final Duration IDLE_LIMIT = Duration.ofSeconds(1);
    private static final Duration END_LIMIT = Duration.ofSeconds(2);
    /** The last records, and the samples, are written soon after the end. */
    private static final Duration RECORDS_LIMIT = Duration.ofSeconds(12);

    private static final long FIRST_LOOK_NS = TimeUnit.MILLISECONDS.toNanos(100);

    private final TraceExport export;
    private final String collector;
    private final TraceMeters meters;
    private final RareLog log = new RareLog(LOG::warn);
    private final Set<String> known = new LinkedHashSet<>();
    private final ThreadPoolExecutor worker = new ThreadPoolExecutor(
            1,
            1,
            IDLE_LIMIT.toMillis(),
            TimeUnit.MILLISECONDS,
            new ArrayBlockingQueue<>(MAX_WAITING),
            task -> LogContext.thread(task, "ppmr-traces"));
    private volatile Ready service;

    MigrationTracer(String collector, TraceMeters meters) {
        this.collector = collector;
        this.export = new TraceExport(collector);
        this.meters = meters;
        worker.allowCoreThreadTimeOut(true);
    }

    @Override
    public void serve(Ready ready) {
        service = ready;
    }

    @Override
    public void ended(String migrationId) {
        Ready ready = service;
        if (ready == null || !isNew(migrationId)) {
            return;
        }
        try {
            worker.execute(() -> trace(ready, migrationId));
        } catch (RejectedExecutionException e) {
            meters.dropped();
            log.write("full", "a trace is dropped, since " + MAX_WAITING + " others wait for " + collector);
        }
    }

    /** Returns true the first time. A target reports each session's end, and a migration may have several. */
    private boolean isNew(String migrationId) {
        synchronized (known) {
            if (known.size() >= REMEMBERED) {
                known.remove(known.iterator().next());
            }
            return known.add(migrationId);
        }
    }

    private void trace(Ready ready, String id) {
        boolean isSent = false;
        String why = "it does not take the trace within some seconds";
        try {
            Optional<MigrationHistory> found = awaitRecords(ready.journal(), id);
            if (found.isEmpty()) {
                return;
            }
            List<PlannedSpan> spans = MigrationSpans.of(found.get(), samples(ready.journal(), id));
            isSent = export.send(id, "ppmr-" + ready.side().name().toLowerCase(Locale.ROOT), hostName(), spans);
        } catch (IOException e) {
            why = e.toString();
        }
        if (isSent) {
            meters.sent();
        } else {
            meters.dropped();
            log.write("dropped", "the trace of migration " + id + " is dropped. Collector " + collector + ": " + why);
        }
    }

    /** Waits until the migration is over in the journal and its samples are there. Returns empty without a record. */
    private static Optional<MigrationHistory> awaitRecords(Path journal, String id) throws IOException {
        SampleStore samples = new SampleStore(journal);
        long deadlineNs = System.nanoTime() + RECORDS_LIMIT.toNanos();
        long waitNs = FIRST_LOOK_NS;
        while (true) {
            Optional<MigrationHistory> found = MigrationHistory.find(journal.resolve(MappedJournal.FILE_NAME), id);
            boolean isWhole = found.isPresent()
                    && !found.get().outcome().equals("OPEN")
                    && samples.find(id).isPresent();
            long leftNs = deadlineNs - System.nanoTime();
            if (isWhole || leftNs <= 0 || Thread.currentThread().isInterrupted()) {
                return found;
            }
            LockSupport.parkNanos(Math.min(leftNs, waitNs));
            waitNs = Math.min(2 * waitNs, TimeUnit.SECONDS.toNanos(2));
        }
    }

    private static Optional<MigrationSamples> samples(Path journal, String id) {
        try {
            return new SampleStore(journal).find(id);
        } catch (IOException e) {
            LOG.warn("the trace of migration {} has no ranks: {}", id, e.getMessage());
            return Optional.empty();
        }
    }

    private static String hostName() throws IOException {
        return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
    }

    @Override
    public void end() {
        worker.shutdown();
        try {
            if (!worker.awaitTermination(END_LIMIT.toMillis(), TimeUnit.MILLISECONDS)) {
                worker.shutdownNow().forEach(waiting -> meters.dropped());
            }
        } catch (InterruptedException e) {
            worker.shutdownNow();
            Thread.currentThread().interrupt();
        }
    }
}
