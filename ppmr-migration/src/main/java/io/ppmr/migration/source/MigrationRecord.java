package io.ppmr.migration.source;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.linux.LogContext;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.samples.SampledMigration;
import io.ppmr.migration.samples.SampledValue;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.migration.source.MigrationReport.MovedRank;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.OutgoingFiles;
import io.ppmr.transaction.journal.TransactionRecord.StepTimed;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The account of a migration while it runs, and its report in the end. Any thread; watchers are notified of each step.
 */
final class MigrationRecord implements SampledMigration {
    private static final Logger LOG = LoggerFactory.getLogger(MigrationRecord.class);
    private static final double NANOS = 1e9;
    /** Maximum number of steps for the history. Attempts are bounded by time only. */
    private static final int MAX_STEPS = 200;

    private static final int EVERY_RANK = -1;

    /** The account of the transfer to one target. */
    private static final class Leg {
        private volatile LongSupplier sentBytes = () -> 0;
        private volatile Optional<OutgoingFiles> files = Optional.empty();
        private volatile DataMessage.Progress atTarget = new DataMessage.Progress(0, 0, 0);
        private TransferReport transfer;
        private long clockOffsetNs;
    }

    private final String id;
    private final String checkpointer;
    private final BufferPool pool;
    private final SourceMetrics metrics;
    private final Consumer<MigrationProgress> watcher;
    private final long startNs = System.nanoTime();
    private final List<MovedRank> ranks = Collections.synchronizedList(new ArrayList<>());
    private final Map<Integer, Leg> legs = new ConcurrentSkipListMap<>();
    private long expectedBytes;
    private long lastWrittenNs;
    private volatile SourceStep step = SourceStep.CONNECT;
    private long stepSinceNs = System.nanoTime();
    private final PauseWatch pauseWatch = new PauseWatch(this::reportStop);
    private final long startEpochMs = System.currentTimeMillis();
    private final List<StepTimed> steps = new ArrayList<>();
    private int attempt;
    private long checkpointNs;
    private long preparedNs;
    private volatile String pages = "";
    private volatile Supplier<Optional<String>> waitsFor = Optional::empty;
    private long heldNs;
    private double pauseSeconds;
    private Keeping keeping;
    private boolean slow;

    MigrationRecord(String id, String checkpointer, SourceContext service, Consumer<MigrationProgress> watcher) {
        this.id = id;
        this.checkpointer = checkpointer;
        this.pool = service.images().pool();
        this.metrics = service.metrics();
        this.watcher = watcher;
    }

    String migrationId() {
        return id;
    }

    SourceStep step() {
        return step;
    }

    synchronized void step(SourceStep next) {
        long nowNs = System.nanoTime();
        metrics.stepped(id, step, nowNs - stepSinceNs);
        // Until the first attempt, the job is inspected and a spare node is chosen.
        note(steps.isEmpty() ? "prepare" : step.name().toLowerCase(Locale.ROOT), stepSinceNs, nowNs, 0);
        if (checkpointNs == 0 && (next == SourceStep.PRECOPY || next == SourceStep.CHECKPOINT)) {
            checkpointNs = nowNs;
        }
        stepSinceNs = nowNs;
        step = next;
        notifyWatcher();
    }

    /** Sets the requested copy, whose end is part of the report. */
    synchronized void setKeeping(Keeping copies) {
        keeping = copies;
    }

    /** Waits until the copy, if one is requested, is on the disk. */
    void awaitCopy() {
        Keeping copies;
        synchronized (this) {
            copies = keeping;
        }
        if (copies != null) {
            copies.await();
        }
    }

    /** Notes a step of the present attempt. */
    private void note(String name, long fromNs, long toNs, long bytes) {
        if (attempt > 0 && toNs > fromNs && steps.size() < MAX_STEPS) {
            long sinceMs = TimeUnit.NANOSECONDS.toMillis(fromNs - startNs);
            steps.add(new StepTimed(id, attempt, name, EVERY_RANK, "", startEpochMs + sinceMs, toNs - fromNs, bytes));
        }
    }

    /**
     * Returns the steps so far, for the history. The last one may still be under way.
     *
     * @param transport the way of the bytes, in a few words
     */
    synchronized List<StepTimed> steps(String transport) {
        long nowNs = System.nanoTime();
        List<StepTimed> earlier = List.copyOf(steps);
        if (step != SourceStep.DONE) {
            note(step.name().toLowerCase(Locale.ROOT), stepSinceNs, nowNs, 0);
        }
        noteBytes(nowNs, "by " + transport);
        List<StepTimed> all = List.copyOf(steps);
        steps.clear();
        steps.addAll(earlier);
        return all;
    }

    /** Notes how long the bytes of the present attempt were written, arrived and were read, and by which transport. */
    private void noteBytes(long nowNs, String way) {
        long endNs = preparedNs == 0 ? nowNs : preparedNs;
        if (checkpointNs == 0 || sentBytes() == 0) {
            return;
        }
        note("write", checkpointNs, lastWrittenNs == 0 ? endNs : lastWrittenNs, sentBytes());
        long arrivedBytes = sum(leg -> leg.atTarget.arrivedBytes());
        note("transfer", checkpointNs, endNs, arrivedBytes);
        if (!way.isEmpty()) {
            note(way, checkpointNs, endNs, arrivedBytes);
        }
        long readBytes = sum(leg -> leg.atTarget.readBytes());
        if (readBytes > 0) {
            boolean measured = legs.values().stream().allMatch(leg -> leg.transfer != null);
            long firstNs = measured ? startNs + (long) (firstReadSeconds() * NANOS) : checkpointNs;
            note("read", Math.max(checkpointNs, firstNs), endNs, readBytes);
        }
    }

    /** Begins another attempt. The bytes of the previous one no longer count. */
    synchronized void newAttempt() {
        long nowNs = System.nanoTime();
        noteBytes(nowNs, "");
        attempt++;
        checkpointNs = 0;
        preparedNs = 0;
        legs.clear();
        ranks.clear();
        lastWrittenNs = 0;
        pages = "";
    }

    /** Notes that the job is stopped from now on, even if its checkpointer lets it continue. */
    void noteStopped() {
        pauseWatch.start();
    }

    /** Returns how long the job has been stopped, or 0 while it computes. */
    long stoppedNs() {
        return pauseWatch.stoppedNs();
    }

    /** @param reason describes the peer or command that a stopped job waits for, if known; called on any thread */
    void setWaitReason(Supplier<Optional<String>> reason) {
        waitsFor = reason;
    }

    /** Notes that the checkpoints wrote too little. */
    synchronized void noteSlow() {
        slow = true;
    }

    /** Ends the reports of the stopped job, because the migration is over. */
    void endReports() {
        pauseWatch.stop();
    }

    private void reportStop(long stoppedNs) {
        try (LogContext.Scope about = LogContext.migration(id)) {
            LOG.info(
                    "migration {}: the job has been stopped for {} s, step {}: {}{}",
                    id,
                    TimeUnit.NANOSECONDS.toSeconds(stoppedNs),
                    step,
                    progress(),
                    waitsFor.get().map(what -> "; " + what).orElse(""));
        }
    }

    /** Notes that the job is held from now on. Only this service, or the target's, continues it again. */
    synchronized void paused() {
        noteStopped();
        if (heldNs == 0) {
            heldNs = System.nanoTime();
        }
    }

    /** Returns how long the job has been held, or 0 while it is not. */
    synchronized long pausedNs() {
        return heldNs == 0 ? 0 : System.nanoTime() - heldNs;
    }

    /** Notes that the job computes again, here or at the target. */
    synchronized void resumed() {
        long stoppedNs = stoppedNs();
        if (stoppedNs != 0) {
            metrics.paused(stoppedNs);
            pauseSeconds = stoppedNs / NANOS;
            long nowNs = System.nanoTime();
            note("pause", nowNs - stoppedNs, nowNs, 0);
            pauseWatch.stop();
            heldNs = 0;
        }
    }

    /** Returns how many bytes the checkpointers wrote in this attempt. */
    long sentBytes() {
        return sum(leg -> leg.sentBytes.getAsLong());
    }

    /** Describes the progress of the images for people. */
    String progress() {
        return sentBytes() + " bytes written, " + sum(leg -> leg.atTarget.arrivedBytes()) + " arrived, "
                + sum(leg -> leg.atTarget.readBytes()) + " read by the restarts, " + ranks.size() + " ranks restored";
    }

    /** Adds the files that the checkpointers write for a target. */
    void setFiles(int place, OutgoingFiles files) {
        leg(place).files = Optional.of(files);
    }

    void setSentBytes(int place, LongSupplier bytes) {
        leg(place).sentBytes = bytes;
    }

    /** Notes how the job's memory is sent in this attempt, and why. */
    void pages(String sentence) {
        pages = sentence;
    }

    String pages() {
        return pages;
    }

    /** Sets the estimated size of the images. */
    synchronized void setExpectedBytes(long bytes) {
        expectedBytes = bytes;
    }

    /**
     * Notes the target's clock, which was {@code targetNs} at some time before this reading of this node's. The offset
     * is rounded down, so that the bytes read by a given time are never overstated.
     */
    synchronized void clock(int place, long targetNs, long afterNs) {
        leg(place).clockOffsetNs = targetNs - afterNs;
    }

    synchronized void progress(int place, DataMessage.Progress progress) {
        leg(place).atTarget = progress;
        notifyWatcher();
    }

    void restored(ControlMessage.Restored restored) {
        ranks.add(new MovedRank(restored.rank(), restored.pids()));
    }

    synchronized void written(long lastBytesNs) {
        lastWrittenNs = Math.max(lastWrittenNs, lastBytesNs);
    }

    synchronized void prepared(int place, TransferReport report) {
        Leg leg = leg(place);
        leg.transfer = report;
        preparedNs = System.nanoTime();
        leg.atTarget = new DataMessage.Progress(report.arrivedBytes(), report.readBytes(), report.stagedBytes());
        notifyWatcher();
    }

    synchronized MigrationReport report(Outcome outcome, String reason) {
        boolean measured =
                lastWrittenNs != 0 && !legs.isEmpty() && legs.values().stream().allMatch(leg -> leg.transfer != null);
        return new MigrationReport(
                id,
                checkpointer,
                pages,
                outcome,
                reason,
                new MigrationReport.MovedImages(
                        measured ? sum(leg -> leg.transfer.arrivedBytes()) : sentBytes(),
                        sum(leg -> leg.atTarget.stagedBytes()),
                        measured ? sum(leg -> leg.transfer.readBytesAt(lastWrittenNs + leg.clockOffsetNs)) : 0),
                new MigrationReport.MigrationTimes(
                        seconds(System.nanoTime()),
                        measured ? firstReadSeconds() : 0,
                        measured ? seconds(lastWrittenNs) : 0,
                        pauseSeconds),
                new MigrationReport.ServiceMemory(
                        pool.geometry().poolBytes(),
                        ResidentMemory.peakBytes(),
                        legs.values().stream()
                                .mapToLong(leg -> leg.transfer == null ? 0 : leg.transfer.peakResidentBytes())
                                .max()
                                .orElse(0)),
                List.copyOf(ranks),
                keeping == null ? null : keeping.report(),
                slow && outcome == Outcome.ROLLED_BACK);
    }

    private double firstReadSeconds() {
        return legs.values().stream()
                .filter(leg -> leg.transfer.firstReadNs() != 0)
                .mapToDouble(leg -> seconds(leg.transfer.firstReadNs() - leg.clockOffsetNs))
                .min()
                .orElse(0);
    }

    @Override
    public long bytes(SampledValue value) {
        return switch (value) {
            case WRITTEN -> sum(leg -> fileBytes(leg, OutgoingFile::writtenBytes));
            case SENT -> sentBytes();
            case ARRIVED -> sum(leg -> leg.atTarget.arrivedBytes());
            case READ -> sum(leg -> leg.atTarget.readBytes());
            case STAGED -> sum(leg -> leg.atTarget.stagedBytes());
            case POOL ->
                (long) (pool.geometry().chunkCount() - pool.chunks(ChunkState.FREE))
                        * pool.geometry().chunkBytes();
        };
    }

    private static long fileBytes(Leg leg, ToLongFunction<OutgoingFile> of) {
        return leg.files.stream()
                .flatMap(files -> Stream.of(files.snapshot()))
                .mapToLong(of)
                .sum();
    }

    @Override
    public void ranks(RankValues each) {
        Map<Integer, Long> writtenBytes = new TreeMap<>();
        Map<Integer, Long> rankSentBytes = new TreeMap<>();
        for (Leg leg : legs.values()) {
            leg.files.ifPresent(files -> {
                for (OutgoingFile file : files.snapshot()) {
                    writtenBytes.merge(file.rank(), file.writtenBytes(), Long::sum);
                    rankSentBytes.merge(file.rank(), file.sentBytes(), Long::sum);
                }
            });
        }
        writtenBytes.forEach((rank, bytes) -> each.take(SampledValue.WRITTEN, rank, bytes));
        rankSentBytes.forEach((rank, bytes) -> each.take(SampledValue.SENT, rank, bytes));
    }

    @Override
    public boolean isPaused() {
        return stoppedNs() != 0;
    }

    private Leg leg(int place) {
        return legs.computeIfAbsent(place, again -> new Leg());
    }

    private long sum(ToLongFunction<Leg> of) {
        return legs.values().stream().mapToLong(of).sum();
    }

    private synchronized void notifyWatcher() {
        MigrationProgress progress = new MigrationProgress(
                step,
                sentBytes(),
                sum(leg -> leg.atTarget.arrivedBytes()),
                sum(leg -> leg.atTarget.readBytes()),
                sum(leg -> leg.atTarget.stagedBytes()),
                seconds(System.nanoTime()),
                expectedBytes,
                pages);
        try {
            watcher.accept(progress);
        } catch (RuntimeException e) {
            // A failing watcher must not stop a migration.
            LOG.warn("migration {}: a watcher failed: {}", id, e.toString());
        }
    }

    private double seconds(long timeNs) {
        return (timeNs - startNs) / NANOS;
    }
}
