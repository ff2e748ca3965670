package io.ppmr.migration.source;

import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.migration.source.MigrationReport.MovedRank;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.os.LogContext;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.TransferReport;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The account of a migration while it runs, and the report of it in the end. Any thread; watchers are notified of each
 * step.
 */
final class MigrationRecord {
    private static final Logger LOG = LoggerFactory.getLogger(MigrationRecord.class);
    private static final double NANOS = 1e9;

    /** The account of the transfer to one target. */
    private static final class Leg {
        private volatile LongSupplier sentBytes = () -> 0;
        private volatile DataMessage.Progress atTarget = new DataMessage.Progress(0, 0, 0);
        private TransferReport transfer;
        private long clockOffsetNs;
    }

    private final String id;
    private final String checkpointer;
    private final long poolBytes;
    private final SourceMetrics metrics;
    private final Consumer<MigrationProgress> watcher;
    private final long startNs = System.nanoTime();
    private final List<MovedRank> ranks = Collections.synchronizedList(new ArrayList<>());
    private final Map<Integer, Leg> legs = new ConcurrentSkipListMap<>();
    private long expectedBytes;
    private long lastWrittenNs;
    private volatile SourceStep step = SourceStep.CONNECT;
    private long stepSinceNs = System.nanoTime();
    private final PauseWatch standstill = new PauseWatch(this::sayThatItStands);
    private volatile String pages = "";
    private volatile Supplier<Optional<String>> waitsFor = Optional::empty;
    private long heldNs;
    private double pauseSeconds;
    private Keeping keeping;
    private boolean slow;

    MigrationRecord(String id, String checkpointer, SourceContext service, Consumer<MigrationProgress> watcher) {
        this.id = id;
        this.checkpointer = checkpointer;
        this.poolBytes = service.settings().pool().poolBytes();
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
        stepSinceNs = nowNs;
        step = next;
        tell();
    }

    /** A copy may be wanted, whose end stands in the report. */
    synchronized void keeps(Keeping copies) {
        keeping = copies;
    }

    /** Gives the copy, if one is wanted, time to reach the disk. */
    void awaitCopy() {
        Keeping copies;
        synchronized (this) {
            copies = keeping;
        }
        if (copies != null) {
            copies.await();
        }
    }

    /** Another attempt: what the one before has sent counts no more. */
    synchronized void newAttempt() {
        legs.clear();
        ranks.clear();
        lastWrittenNs = 0;
        pages = "";
    }

    /** Notes that the job is stopped from now on, if only for a checkpointer that lets it continue by itself. */
    void standsStill() {
        standstill.begins();
    }

    /** Returns for how long the job has been stopped; 0 while it computes. */
    long stillNs() {
        return standstill.stillNs();
    }

    /** @param reason what a job that is stopped waits for, where that is known; asked on any thread */
    void waitsFor(Supplier<Optional<String>> reason) {
        waitsFor = reason;
    }

    /** Notes that the checkpoints have written too little. */
    synchronized void slow() {
        slow = true;
    }

    /** Stops the announcements that the job is stopped: the migration is over. */
    void over() {
        standstill.ends();
    }

    private void sayThatItStands(long stillNs) {
        try (LogContext.Scope about = LogContext.migration(id)) {
            LOG.info(
                    "migration {}: the job has been stopped for {} s, step {}: {}{}",
                    id,
                    TimeUnit.NANOSECONDS.toSeconds(stillNs),
                    step,
                    progress(),
                    waitsFor.get().map(what -> "; " + what).orElse(""));
        }
    }

    /** Notes that the job is held from now on: only this service, or the target's, continues it again. */
    synchronized void paused() {
        standsStill();
        if (heldNs == 0) {
            heldNs = System.nanoTime();
        }
    }

    /** Returns for how long the job has been held; 0 while it is not. */
    synchronized long pausedNs() {
        return heldNs == 0 ? 0 : System.nanoTime() - heldNs;
    }

    /** The job computes again, here or there. */
    synchronized void resumed() {
        long stillNs = stillNs();
        if (stillNs != 0) {
            metrics.paused(stillNs);
            pauseSeconds = stillNs / NANOS;
            standstill.ends();
            heldNs = 0;
        }
    }

    /** Returns how many bytes the checkpointers have written in this attempt. */
    long sentBytes() {
        return sum(leg -> leg.sentBytes.getAsLong());
    }

    /** Describes for people how far the images are. */
    String progress() {
        return sentBytes() + " bytes written, " + sum(leg -> leg.atTarget.arrivedBytes()) + " arrived, "
                + sum(leg -> leg.atTarget.readBytes()) + " read by the restarts, " + ranks.size() + " ranks restored";
    }

    void sends(int place, LongSupplier bytes) {
        leg(place).sentBytes = bytes;
    }

    /** Notes how the job's memory travels in this attempt, and why. */
    void pages(String sentence) {
        pages = sentence;
    }

    String pages() {
        return pages;
    }

    /** About how many bytes the images will have. */
    synchronized void expects(long bytes) {
        expectedBytes = bytes;
    }

    /**
     * The target's clock was {@code targetNs} at some time before this reading of ours. The offset is taken as small as
     * it can be: what had been read by a moment of ours is then never overstated.
     */
    synchronized void clock(int place, long targetNs, long afterNs) {
        leg(place).clockOffsetNs = targetNs - afterNs;
    }

    synchronized void progress(int place, DataMessage.Progress progress) {
        leg(place).atTarget = progress;
        tell();
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
        leg.atTarget = new DataMessage.Progress(report.arrivedBytes(), report.readBytes(), report.stagedBytes());
        tell();
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
                        poolBytes,
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

    private Leg leg(int place) {
        return legs.computeIfAbsent(place, again -> new Leg());
    }

    private long sum(ToLongFunction<Leg> of) {
        return legs.values().stream().mapToLong(of).sum();
    }

    private synchronized void tell() {
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
