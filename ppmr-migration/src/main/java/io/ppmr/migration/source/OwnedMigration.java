package io.ppmr.migration.source;

import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorInbox;
import java.util.Optional;

/** A migration from the view of the {@link MigrationQueue}. Any thread, except for {@link #run}. */
interface OwnedMigration {
    /**
     * Runs the migration on this thread until it is over. It sends its report once, perhaps before that.
     *
     * @throws IllegalStateException if it failed by a defect
     */
    void run() throws InterruptedException;

    /** Adds an operator's decision. Returns false once the migration is over. */
    boolean submit(OperatorInbox.PendingDecision call);

    /** Returns its last known state, if an operator should see it. */
    Optional<OpenMigration> open();

    /** Returns true if its threads work. Blocks the caller. */
    boolean responds(long limitNs);

    /** Returns true while a rollback waits for checkpoints that write from within their processes. */
    boolean waitsForCheckpoints();
}
