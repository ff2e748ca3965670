package io.ppmr.migration.source;

import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorInbox;
import java.util.Optional;
import java.util.concurrent.Callable;

/**
 * A migration that no operator can decide: one that cannot begin, or one of a test.
 *
 * @param work returns the report
 * @param reported listener for the report
 */
record BriefMigration(Moves work, ReportListener reported) implements OwnedMigration {
    /** Moves the job and returns the report. */
    interface Moves extends Callable<MigrationReport> {
        @Override
        MigrationReport call() throws InterruptedException;
    }

    @Override
    public void run() throws InterruptedException {
        reported.report(work.call(), true);
    }

    @Override
    public boolean submit(OperatorInbox.PendingDecision call) {
        return false;
    }

    @Override
    public Optional<OpenMigration> open() {
        return Optional.empty();
    }

    @Override
    public boolean responds(long limitNs) {
        return true;
    }

    @Override
    public boolean waitsForCheckpoints() {
        return false;
    }
}
