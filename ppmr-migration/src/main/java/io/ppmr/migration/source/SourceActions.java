package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.migration.ReconnectingLink;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.os.HostPort;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import java.io.IOException;
import java.util.List;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Does what a migration has decided to the job of its source: to its originals, its hooks and its files. Whatever here
 * looks at a process or waits for one is done by the migration's worker, which owns this.
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

    /** Proves all originals, thread by thread: held, and that none has run since it was found held. */
    OriginalsState originals() {
        if (originals.whyNotAlive() != null) {
            // What has ended by itself leaves nothing to decide: no image was begun, so no copy can be made.
            return attempts.untouched() ? OriginalsState.ALIVE : OriginalsState.DEAD;
        }
        return originals.whyNotHeld() == null ? OriginalsState.HELD : OriginalsState.ALIVE;
    }

    /** Names for people an original that is not held; asked after {@link #originals} has said so. */
    String whyNotHeld() {
        String gone = originals.whyNotAlive();
        return String.valueOf(gone == null ? originals.whyNotHeld() : gone);
    }

    /** Ends every original; whether it is proved that none is left. Those that are gone already are no error. */
    boolean endOriginals() {
        attempts.rest();
        if (!endAbandoned()) {
            return false;
        }
        String left = originals.end();
        if (left != null) {
            LOG.error("migration {}: original process could not be killed; copies stay held: {}", id, left);
        }
        return left == null;
    }

    /** Sees ended what an earlier run of the service has started for the job; whether nothing is left. */
    private boolean endAbandoned() {
        return hooks.endAbandoned() && originals.endAbandonedCheckpoints();
    }

    /** Every original that is alive continues; whether all do. */
    boolean continueOriginals() {
        // A command that still works on an original would stop it again, or leave it broken.
        if (!endAbandoned() || !originals.release()) {
            return false;
        }
        record.resumed();
        return true;
    }

    /** Runs the resume hook. Its failure is logged, nothing else. */
    void resume() {
        if (job.hooks().resume().isPresent() && attempts.hasSuspended()) {
            hooks.endAbandoned();
            try {
                hooks.run(job.hooks().resume());
            } catch (CheckpointException | RuntimeException e) {
                sayThatItMayNotGoOn(e);
            }
        }
    }

    /** Runs the reconnect hook. Its failure is logged, nothing else. */
    void reconnect() {
        record.step(SourceStep.RECONNECT);
        hooks.endAbandoned();
        try {
            hooks.reconnect(attempts.plan().map(job.others()));
        } catch (IOException | CheckpointException | RuntimeException e) {
            sayThatItMayNotGoOn(e);
        }
        record.resumed();
    }

    private void sayThatItMayNotGoOn(Exception e) {
        LOG.error(
                "migration {}: {}: the job may not communicate again by itself",
                id,
                e instanceof RuntimeException ? "a defect of this service: " + e : e.getMessage());
    }

    /**
     * Has the site's command prove a participant's node off, on a thread of its own: it may take a minute.
     *
     * @param ended told whether it is proved, on that thread
     */
    void fence(Fence command, String participant, Consumer<Boolean> ended) {
        command.start(
                HostPort.ofParticipant(participant).host(),
                hooks.workDirectory(),
                service.programs(),
                () -> true,
                ended);
    }

    /** Takes the last attempt down, and returns the migration's report. The journal knows its outcome. */
    MigrationReport finish(FinalOutcome outcome, String reason) {
        attempts.rest();
        MigrationReport.Outcome how =
                outcome == FinalOutcome.COMMITTED ? MigrationReport.Outcome.COMMITTED : attempts.notMoved();
        try {
            attempts.close();
            record.step(SourceStep.DONE);
            record.awaitCopy();
        } catch (RuntimeException e) {
            LOG.error("migration {}: a defect of this service; not everything of it could be taken down", id, e);
        }
        return record.report(how, attempts.reason(reason));
    }

    /** Closes links that are no longer needed, each of which may have something to say still. */
    static void close(List<ReconnectingLink> links) {
        links.forEach(ReconnectingLink::close);
    }

    /**
     * Leaves nothing of the migration in the service.
     *
     * @param whole whether it has come to its end; else the next run of the service carries it on
     */
    void takeDown(List<ReconnectingLink> links, boolean whole) {
        close(links);
        attempts.close();
        if (whole) {
            originals.endAbandonedCheckpoints();
        }
        WorkDirectories.removeOrWarn(hooks.workDirectory());
    }

    /** Notes the end of the copy, and wipes the pool. */
    void wipe() {
        attempts.copy()
                .ifPresent(copy -> service.note(new TransactionRecord.CopyEnded(id, 0, copy.kept(), copy.sentence())));
        record.over();
        // Before the next job's session, whose target could read the whole pool by RDMA; after this job's decision.
        int kept = service.images().pool().wipe();
        if (kept > 0) {
            LOG.error("migration {}: {} chunks of the pool were not given back and keep its bytes", id, kept);
        }
    }
}
