package io.ppmr.source;

import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.TransferReport;
import io.ppmr.source.MigrationProgress.Step;
import io.ppmr.source.MigrationReport.MovedRank;
import io.ppmr.source.MigrationReport.Outcome;
import io.ppmr.source.metrics.StepTimes;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What is known of a migration while it runs, and the report of it in the end. Owned by the migration's thread; whoever
 * watches is told of each step.
 */
final class MigrationRecord {
    private static final Logger LOG = LoggerFactory.getLogger(MigrationRecord.class);
    private static final double NANOS = 1e9;

    private final String id;
    private final String checkpointer;
    private final long poolBytes;
    private final StepTimes times;
    private final Consumer<MigrationProgress> watcher;
    private final long startNs = System.nanoTime();
    private final List<MovedRank> ranks = new ArrayList<>();
    private LongSupplier sentBytes = () -> 0;
    private ControlMessage.Progress atTarget = new ControlMessage.Progress(0, 0, 0);
    private TransferReport transfer;
    private long clockOffsetNs;
    private long expectedBytes;
    private long lastWrittenNs;
    private Step step = Step.CONNECT;
    private long stepSinceNs = System.nanoTime();
    private long pausedSinceNs;
    private boolean pauses;

    MigrationRecord(
            String id, String checkpointer, long poolBytes, StepTimes times, Consumer<MigrationProgress> watcher) {
        this.id = id;
        this.checkpointer = checkpointer;
        this.poolBytes = poolBytes;
        this.times = times;
        this.watcher = watcher;
    }

    Step step() {
        return step;
    }

    void step(Step next) {
        long nowNs = System.nanoTime();
        times.stepped(id, step, nowNs - stepSinceNs);
        stepSinceNs = nowNs;
        if (next == Step.CHECKPOINT) {
            pauses = true;
            pausedSinceNs = nowNs;
        } else if (next == Step.DONE && pauses) {
            pauses = false;
            times.paused(nowNs - pausedSinceNs);
        }
        step = next;
        tell();
    }

    void sends(LongSupplier bytes) {
        sentBytes = bytes;
    }

    /** About how many bytes the images will have. */
    void expects(long bytes) {
        expectedBytes = bytes;
    }

    /**
     * The target's clock was {@code targetNs} at some time before this reading of ours. The offset is taken as small as
     * it can be: what had been read by a moment of ours is then never overstated.
     */
    void clock(long targetNs, long afterNs) {
        clockOffsetNs = targetNs - afterNs;
    }

    void progress(ControlMessage.Progress progress) {
        atTarget = progress;
        tell();
    }

    void restored(ControlMessage.Restored restored) {
        ranks.add(new MovedRank(restored.rank(), restored.pids()));
    }

    void written(long lastBytesNs) {
        lastWrittenNs = lastBytesNs;
    }

    void prepared(TransferReport report) {
        transfer = report;
        atTarget = new ControlMessage.Progress(report.arrivedBytes(), report.readBytes(), report.stagedBytes());
        tell();
    }

    MigrationReport report(Outcome outcome, String reason) {
        boolean measured = transfer != null && lastWrittenNs != 0;
        boolean wasRead = measured && transfer.firstReadNs() != 0;
        return new MigrationReport(
                id,
                checkpointer,
                outcome,
                reason,
                measured ? transfer.arrivedBytes() : sentBytes.getAsLong(),
                atTarget.stagedBytes(),
                seconds(System.nanoTime()),
                wasRead ? seconds(transfer.firstReadNs() - clockOffsetNs) : 0,
                measured ? seconds(lastWrittenNs) : 0,
                measured ? transfer.readBytesAt(lastWrittenNs + clockOffsetNs) : 0,
                poolBytes,
                ResidentMemory.peakBytes(),
                transfer == null ? 0 : transfer.peakResidentBytes(),
                ranks);
    }

    private void tell() {
        MigrationProgress progress = new MigrationProgress(
                step,
                sentBytes.getAsLong(),
                atTarget.arrivedBytes(),
                atTarget.readBytes(),
                atTarget.stagedBytes(),
                seconds(System.nanoTime()),
                expectedBytes);
        try {
            watcher.accept(progress);
        } catch (RuntimeException e) {
            // Whoever only watches must not stop a migration.
            LOG.warn("migration {}: somebody who watches it fails: {}", id, e.toString());
        }
    }

    private double seconds(long timeNs) {
        return (timeNs - startNs) / NANOS;
    }
}
