package io.ppmr.migration.source;

import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorInbox;
import java.util.Optional;

/** A migration as the {@link MigrationQueue} sees it. Any thread, except for {@link #run}. */
interface OwnedMigration {
    /**
     * Runs it on this thread until nothing of it is left. It tells its report once, perhaps before that.
     *
     * @throws IllegalStateException if it broke off by a defect
     */
    void run() throws InterruptedException;

    /** Takes an operator's word; false once it is over. */
    boolean take(OperatorInbox.PendingDecision call);

    /** Returns its state of a moment ago, if an operator should know of it. */
    Optional<OpenMigration> open();

    /** Returns true if what it has running does its work. Blocks the thread. */
    boolean responds(long limitNs);

    /** Returns true while a rollback waits for checkpoints that write from within their processes. */
    boolean waitsForCheckpoints();
}
