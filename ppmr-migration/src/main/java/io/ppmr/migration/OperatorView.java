package io.ppmr.migration;

import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorInbox;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * A migration as operators see it, and what they say to it; the same at the source and at a target. {@link #take} and
 * {@link #open} may be called by any thread, the others are for the migration's.
 */
public final class OperatorView {
    private static final long LOOK_NS = TimeUnit.SECONDS.toNanos(1);

    /** The questions to the migration, on its thread. */
    public interface Migration extends OperatorInbox.Migration {
        /** The phase that it is in, as operators are told it. */
        String phase();

        /** Since when it waits, as the clock of the view has it. */
        long waitsSinceNs();

        /** The ranks that are proved to be held just now. */
        List<Integer> heldRanks();
    }

    private final String id;
    private final Migration migration;
    private final OperatorInbox inbox;
    private final LongSupplier clock;
    private boolean takenUp;
    private long lookedNs;
    private String looked = "";
    private volatile OpenMigration open;

    /** @param clock the migration's own, in nanoseconds */
    public OperatorView(String migrationId, Migration migration, LongSupplier clock) {
        this.clock = clock;
        this.id = migrationId;
        this.migration = migration;
        this.inbox = new OperatorInbox(migrationId, migration);
    }

    /** Takes an operator's word; false once the migration's thread has ended. */
    public boolean take(OperatorInbox.Call call) {
        return inbox.take(call);
    }

    /** Returns true while an operator waits for an answer, which has its time. */
    public boolean isAsked() {
        return inbox.isAsked();
    }

    /** Returns the state of the migration, if an operator should know of it. */
    public Optional<OpenMigration> open() {
        return Optional.ofNullable(open);
    }

    /** An earlier run of the service has begun it. */
    public void takenUp() {
        takenUp = true;
    }

    /** Hears operators, and notes where the migration stands; not at each step, as that looks at processes. */
    public void work() {
        inbox.work(clock.getAsLong());
        String phase = migration.phase();
        if (phase.equals(looked) && clock.getAsLong() - lookedNs < LOOK_NS) {
            return;
        }
        looked = phase;
        lookedNs = clock.getAsLong();
        String waitsFor = migration.isOver() ? null : migration.waitsFor();
        if (migration.isOver() || (waitsFor == null && !takenUp)) {
            open = null;
            return;
        }
        long waitedMs = TimeUnit.NANOSECONDS.toMillis(lookedNs - migration.waitsSinceNs());
        open = new OpenMigration(
                id, phase, takenUp, migration.heldRanks(), System.currentTimeMillis() - waitedMs, waitsFor);
    }

    /** The migration's thread ends. */
    public void close() {
        open = null;
        inbox.close();
    }
}
