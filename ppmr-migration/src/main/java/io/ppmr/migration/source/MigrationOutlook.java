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
 * Shows where a migration stands, and gives its report: at its end, or "in doubt" where somebody has waited for long.
 * Owned by the migration's thread.
 */
final class MigrationOutlook {
    private static final Logger LOG = LoggerFactory.getLogger(MigrationOutlook.class);

    private static final long SAY_NS = TimeUnit.SECONDS.toNanos(10);
    private static final long REPORT_S = 20;

    private final String id;
    private final MigrationRecord record;
    private final Duration decisionDeadline;
    private final ReportListener reported;
    private String lastWords = "a target is not reached; the originals are held or gone, its ranks are held there";
    private Optional<MigrationReport> ended = Optional.empty();
    private boolean isReported;
    /** Another thread gives the report "in doubt". */
    private Future<Boolean> early = CompletableFuture.completedFuture(true);

    private boolean lateTold;
    private long openSinceNs;
    private long nextDefectNs = System.nanoTime();

    /** @param reported told the report once; perhaps on another thread */
    MigrationOutlook(MigrationRecord record, Duration decisionDeadline, ReportListener reported) {
        this.id = record.migrationId();
        this.record = record;
        this.decisionDeadline = decisionDeadline;
        this.reported = reported;
    }

    /** Tells people, loudly. */
    void say(String text) {
        lastWords = text;
        LOG.error("migration {}: {}", id, text);
    }

    /** Tells people of a defect of this service; not again and again of one that comes back. */
    void sayDefect(String what, RuntimeException e) {
        long nowNs = System.nanoTime();
        if (nowNs - nextDefectNs >= 0) {
            nextDefectNs = nowNs + SAY_NS;
            LOG.error("migration {}: a defect of this service; please report it: {}", id, what, e);
        }
    }

    /** Notes the report for the end. */
    void ends(MigrationReport report) {
        ended = Optional.of(report);
    }

    /**
     * Gives the report of the end, unless it was given as "in doubt": then that is waited for, since whoever is told of
     * this migration must not take it for the next one's. Nothing of the migration is left.
     */
    void over() throws InterruptedException {
        if (!isReported) {
            isReported = true;
            ended.ifPresent(report -> reported.report(report, true));
            return;
        }
        try {
            early.get(REPORT_S, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            LOG.error("migration {}: its report, in doubt, is not made after {} s", id, REPORT_S, e);
        } catch (ExecutionException e) {
            LOG.error("migration {}: a defect of this service; please report it: no report", id, e.getCause());
        }
    }

    /** Gives the report of the end before everything of the migration is taken down: something hangs. */
    void isNotTakenDown() {
        if (!isReported && ended.isPresent()) {
            isReported = true;
            reported.report(ended.get(), false);
        }
    }

    /** Shows where it stands, and gives an early report where somebody has waited for long. */
    void follow(Coordinator coordinator, boolean waitsForCheckpoints) {
        CoordinatorPhase phase = coordinator.writtenState().phase();
        stepOf(phase).filter(step -> record.step() != step).ifPresent(record::step);
        boolean open = phase == CoordinatorPhase.COMMITTING
                || phase == CoordinatorPhase.ROLLING_BACK
                || phase == CoordinatorPhase.CONFIRMING
                || phase == CoordinatorPhase.BROKEN;
        // Checkpoints that are waited for have a deadline of their own, and no target is to blame for it.
        open &= !waitsForCheckpoints;
        if (!open) {
            openSinceNs = 0;
        } else if (openSinceNs == 0) {
            openSinceNs = System.nanoTime();
        }
        boolean longOpen = open && System.nanoTime() - openSinceNs > decisionDeadline.toNanos();
        // A target that is reached is not to blame while this service's own work takes its time.
        boolean isSettled = coordinator.isSettledByReached() || coordinator.isBusy();
        boolean isBroken = phase == CoordinatorPhase.BROKEN && coordinator.isSettled();
        if ((isBroken || (longOpen && !isSettled)) && !isReported) {
            isReported = true;
            LOG.error("migration {} is IN DOUBT: {}", id, lastWords);
            String words = lastWords;
            // What it holds is read from /proc, and whoever is told writes it down.
            early = SideTask.start(
                    "ppmr-report",
                    () -> {
                        reported.report(record.report(MigrationReport.Outcome.IN_DOUBT, words), false);
                        return true;
                    },
                    () -> LOG.trace("migration {} is reported as in doubt", id));
        } else if (longOpen && isSettled && !lateTold) {
            lateTold = true;
            LOG.warn(
                    "migration {} was decided more than {} s ago, and is not over: its targets can be reached, and"
                            + " have not done yet what it means for them",
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

    /** In how many nanoseconds there may be something to say; at most so many. */
    long dueNs(long atMostNs) {
        return openSinceNs == 0 || isReported || lateTold
                ? atMostNs
                : Math.min(atMostNs, openSinceNs + decisionDeadline.toNanos() - System.nanoTime());
    }
}
