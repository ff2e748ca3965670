package io.ppmr.migration.source;

import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.transaction.Coordinator;
import io.ppmr.transaction.rules.CoordinatorState.CoordinatorPhase;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Shows the state of a migration, and sends its report. The report follows at the migration's end, or as "in doubt" if
 * a peer is unreachable for too long. Owned by the migration's thread.
 */
final class MigrationOutlook {
    private static final Logger LOG = LoggerFactory.getLogger(MigrationOutlook.class);

    private static final long REPORT_INTERVAL_NS = TimeUnit.SECONDS.toNanos(10);
    private static final long REPORT_S = 20;

    private final String id;
    private final MigrationRecord record;
    private final Duration decisionDeadline;
    private final ReportListener reported;
    private String inDoubtReason = "a target is not reached; the originals are held or gone, its ranks are held there";
    private Optional<MigrationReport> ended = Optional.empty();
    private boolean isReported;
    /** Another thread sends the report "in doubt". */
    private Future<Boolean> early = CompletableFuture.completedFuture(true);

    private boolean isLateReported;
    private long openSinceNs;
    private long nextDefectNs = System.nanoTime();

    /** @param reported receives the report once; perhaps on another thread */
    MigrationOutlook(MigrationRecord record, Duration decisionDeadline, ReportListener reported) {
        this.id = record.migrationId();
        this.record = record;
        this.decisionDeadline = decisionDeadline;
        this.reported = reported;
    }

    /** Reports a text to operators, as an error. */
    void report(String text) {
        inDoubtReason = text;
        LOG.error("migration {}: {}", id, text);
    }

    /** Reports a defect of this service to operators. A repeated defect is reported rarely. */
    void reportDefect(String what, RuntimeException e) {
        long nowNs = System.nanoTime();
        if (nowNs - nextDefectNs >= 0) {
            nextDefectNs = nowNs + REPORT_INTERVAL_NS;
            LOG.error("migration {}: a defect of this service; please report it: {}", id, what, e);
        }
    }

    /** Sets the report for the end. */
    void setFinalReport(MigrationReport report) {
        ended = Optional.of(report);
    }

    /**
     * Sends the report of the end, unless "in doubt" was sent. In that case this waits for the earlier report, so that
     * no listener mistakes it for the next migration's. The migration ended.
     */
    void sendFinalReport() throws InterruptedException {
        if (!isReported) {
            isReported = true;
            ended.ifPresent(report -> reported.report(report, true));
            return;
        }
        try {
            early.get(REPORT_S, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            LOG.error("migration {}: its report IN DOUBT is not complete after {} s", id, REPORT_S, e);
        } catch (ExecutionException e) {
            LOG.error("migration {}: a defect of this service; please report it: no report", id, e.getCause());
        }
    }

    /** Sends the report of the end although the migration's resources are not released, because something hangs. */
    void reportBeforeRelease() {
        if (!isReported && ended.isPresent()) {
            isReported = true;
            reported.report(ended.get(), false);
        }
    }

    /** Updates the shown state, and sends an early report if a peer is unreachable for too long. */
    void follow(Coordinator coordinator, boolean waitsForCheckpoints) {
        CoordinatorPhase phase = coordinator.writtenState().phase();
        stepOf(phase).filter(step -> record.step() != step).ifPresent(record::step);
        boolean open = phase == CoordinatorPhase.COMMITTING
                || phase == CoordinatorPhase.ROLLING_BACK
                || phase == CoordinatorPhase.CONFIRMING
                || phase == CoordinatorPhase.BROKEN;
        // Checkpoints that are waited for have their own deadline, and no target is the cause.
        open &= !waitsForCheckpoints;
        if (!open) {
            openSinceNs = 0;
        } else if (openSinceNs == 0) {
            openSinceNs = System.nanoTime();
        }
        boolean longOpen = open && System.nanoTime() - openSinceNs > decisionDeadline.toNanos();
        // A reachable target is not the cause while this service's own work needs time.
        boolean isSettled = coordinator.isSettledByReached() || coordinator.isBusy();
        boolean isBroken = phase == CoordinatorPhase.BROKEN && coordinator.isSettled();
        if ((isBroken || (longOpen && !isSettled)) && !isReported) {
            isReported = true;
            LOG.error("migration {} is IN DOUBT: {}", id, inDoubtReason);
            String words = inDoubtReason;
            // The held ranks are read from /proc, and the listener writes the report to a disk.
            early = SideTask.start(
                    "ppmr-report",
                    () -> {
                        reported.report(record.report(MigrationReport.Outcome.IN_DOUBT, words), false);
                        return true;
                    },
                    () -> LOG.trace("migration {} is reported as in doubt", id));
        } else if (longOpen && isSettled && !isLateReported) {
            isLateReported = true;
            LOG.warn(
                    "migration {} was decided more than {} s ago, and is not over: its targets are reachable, but"
                            + " have not carried out the decision yet",
                    id,
                    decisionDeadline.toSeconds());
        }
    }

    private static Optional<SourceStep> stepOf(CoordinatorPhase phase) {
        return switch (phase) {
            case CONFIRMING, COMMITTING -> Optional.of(SourceStep.COMMIT);
            case ROLLING_BACK -> Optional.of(SourceStep.ROLL_BACK);
            default -> Optional.empty();
        };
    }

    /** Returns the nanoseconds until the next report may be due, up to a limit. */
    long dueNs(long atMostNs) {
        return openSinceNs == 0 || isReported || isLateReported
                ? atMostNs
                : Math.min(atMostNs, openSinceNs + decisionDeadline.toNanos() - System.nanoTime());
    }
}
