package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.HostPort;
import io.ppmr.migration.ReconnectingLink;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import java.io.IOException;
import java.util.List;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Carries out a migration's decisions on its job at the source: on its originals, its hooks and its files. The
 * migration's worker owns it, because its methods inspect processes and wait for them.
 */
final class SourceActions {
    private static final Logger LOG = LoggerFactory.getLogger(SourceActions.class);

    private final String id;
    private final SourceContext service;
    private final JobNotes job;
    private final MigrationRecord record;
    private final OriginalRanks originals;
    private final HookRunner hooks;
    private final Attempts attempts;

    SourceActions(
            SourceContext service,
            JobNotes job,
            MigrationRecord record,
            OriginalRanks originals,
            HookRunner hooks,
            Attempts attempts) {
        this.id = record.migrationId();
        this.service = service;
        this.job = job;
        this.record = record;
        this.originals = originals;
        this.hooks = hooks;
        this.attempts = attempts;
    }

    /** Proves all originals, thread by thread: they are held, and none ran since it was found held. */
    OriginalsState originals() {
        if (originals.whyNotAlive() != null) {
            // If the originals ended by themselves, nothing is left to decide. No image was begun, so no copy is
            // possible.
            return attempts.isUntouched() ? OriginalsState.ALIVE : OriginalsState.DEAD;
        }
        return originals.whyNotHeld() == null ? OriginalsState.HELD : OriginalsState.ALIVE;
    }

    /** Names for people an original that is not held, after {@link #originals} has found one. */
    String whyNotHeld() {
        String gone = originals.whyNotAlive();
        return String.valueOf(gone == null ? originals.whyNotHeld() : gone);
    }

    /**
     * Kills every original. Returns whether none is proved to be left. Originals that are gone already are no error.
     */
    boolean endOriginals() {
        attempts.stopChecking();
        if (!endOrphaned()) {
            return false;
        }
        String left = originals.end();
        if (left != null) {
            LOG.error("migration {}: original process could not be killed; copies stay held: {}", id, left);
        }
        return left == null;
    }

    /** Ends the job's commands of an earlier run of the service. Returns whether none is left. */
    private boolean endOrphaned() {
        return hooks.endOrphaned() && originals.endOrphanedCheckpoints();
    }

    /** Continues every original that is alive. Returns whether all of them continue. */
    boolean continueOriginals() {
        // A command that still works on an original would stop it again, or leave it broken.
        if (!endOrphaned() || !originals.release()) {
            return false;
        }
        record.resumed();
        return true;
    }

    /** Runs the resume hook. A failure is only logged. */
    void resume() {
        if (job.hooks().resume().isPresent() && attempts.hasSuspended()) {
            hooks.endOrphaned();
            try {
                hooks.run(job.hooks().resume());
            } catch (CheckpointException | RuntimeException e) {
                logHookFailure(e);
            }
        }
    }

    /** Runs the reconnect hook. A failure is only logged. */
    void reconnect() {
        record.step(SourceStep.RECONNECT);
        hooks.endOrphaned();
        try {
            hooks.reconnect(attempts.plan().map(job.others()));
        } catch (IOException | CheckpointException | RuntimeException e) {
            logHookFailure(e);
        }
        record.resumed();
    }

    private void logHookFailure(Exception e) {
        LOG.error(
                "migration {}: {}: the job may not communicate again without help",
                id,
                e instanceof RuntimeException ? "a defect of this service: " + e : e.getMessage());
    }

    /**
     * Runs the site's command to prove a participant's node off, on its own thread, because it may take a minute.
     *
     * @param ended receives whether the node is proved off, on that thread
     */
    void fence(Fence command, String participant, Consumer<Boolean> ended) {
        command.start(
                HostPort.ofParticipant(participant).host(),
                hooks.workDirectory(),
                service.programs(),
                () -> true,
                ended);
    }

    /** Closes the last attempt, and returns the migration's report. The journal has its outcome. */
    MigrationReport finish(FinalOutcome outcome, String reason) {
        attempts.stopChecking();
        MigrationReport.Outcome how =
                outcome == FinalOutcome.COMMITTED ? MigrationReport.Outcome.COMMITTED : attempts.outcomeWithoutCommit();
        if (how == MigrationReport.Outcome.REFUSED) {
            service.note(new TransactionRecord.NothingChanged(id, 0));
        }
        try {
            attempts.close();
            record.step(SourceStep.DONE);
            record.awaitCopy();
        } catch (RuntimeException e) {
            LOG.error("migration {}: a defect of this service; not all of its resources could be released", id, e);
        }
        return record.report(how, attempts.reason(reason));
    }

    /** Closes links that are no longer needed. Each may still have a message to send. */
    static void close(List<ReconnectingLink> links) {
        links.forEach(ReconnectingLink::close);
    }

    /**
     * Releases the migration's resources in the service.
     *
     * @param whole whether the migration ended; otherwise the service's next run continues it
     */
    void takeDown(List<ReconnectingLink> links, boolean whole) {
        close(links);
        attempts.close();
        if (whole) {
            originals.dropNames();
            originals.endOrphanedCheckpoints();
        }
        WorkDirectories.removeOrWarn(hooks.workDirectory());
    }

    /** Records the end of the copy, and wipes the pool. */
    void wipe() {
        attempts.copy()
                .ifPresent(copy -> service.note(new TransactionRecord.CopyEnded(id, 0, copy.kept(), copy.sentence())));
        record.endReports();
        // This precedes the next job's session, whose target could read the whole pool by RDMA. It follows this job's
        // decision.
        int kept = service.images().pool().wipe();
        if (kept > 0) {
            LOG.error("migration {}: {} chunks of the pool were not released and keep its bytes", id, kept);
        }
    }
}
