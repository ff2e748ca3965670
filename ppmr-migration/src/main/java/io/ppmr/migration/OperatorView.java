package io.ppmr.migration;

import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorInbox;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A migration as operators see it, and what they say to it; the same at the source and at a target. {@link #take} and
 * {@link #open} may be called by any thread, the others are for the migration's.
 */
public final class OperatorView {
    private static final Logger LOG = LoggerFactory.getLogger(OperatorView.class);
    private static final long LOOK_NS = TimeUnit.SECONDS.toNanos(1);

    /** The questions to the migration, on its thread. */
    public interface ViewedMigration extends OperatorInbox.DecidableMigration {
        /** The phase that it is in, as operators are told it. */
        String phase();

        /** Since when it waits, as the clock of the view has it. */
        long waitsSinceNs();

        /** Looks which ranks are proved to be held just now. The look may end later, and is the same until it does. */
        Future<List<Integer>> heldRanks();
    }

    private final String id;
    private final ViewedMigration migration;
    private final OperatorInbox inbox;
    private final LongSupplier clock;
    private boolean takenUp;
    private long lookedNs;
    private String looked = "";
    private Optional<Future<List<Integer>>> look = Optional.empty();
    private List<Integer> held = List.of();
    private volatile OpenMigration open;

    /** @param clock the migration's own, in nanoseconds */
    public OperatorView(String migrationId, ViewedMigration migration, LongSupplier clock) {
        this.clock = clock;
        this.id = migrationId;
        this.migration = migration;
        this.inbox = new OperatorInbox(migrationId, migration);
    }

    /** Takes an operator's word; false once the migration's thread has ended. */
    public boolean take(OperatorInbox.PendingDecision call) {
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

    /** Hears operators, and notes where the migration stands; not at each step, as that has processes looked at. */
    public void work() {
        inbox.work(clock.getAsLong());
        String phase = migration.phase();
        if (!phase.equals(looked) || clock.getAsLong() - lookedNs >= LOOK_NS) {
            looked = phase;
            lookedNs = clock.getAsLong();
            if (migration.isOver() || (migration.waitsFor() == null && !takenUp)) {
                open = null;
                look = Optional.empty();
                return;
            }
            // One that has not ended in time is not waited for: what was found last is shown.
            look.ifPresent(late -> show(held));
            look = Optional.of(migration.heldRanks());
        }
        if (look.isPresent() && look.get().isDone()) {
            held = found(look.get());
            look = Optional.empty();
            show(held);
        }
    }

    private void show(List<Integer> ranks) {
        long waitedMs = TimeUnit.NANOSECONDS.toMillis(clock.getAsLong() - migration.waitsSinceNs());
        open = new OpenMigration(
                id,
                migration.phase(),
                takenUp,
                ranks,
                System.currentTimeMillis() - waitedMs,
                migration.isOver() ? null : migration.waitsFor());
    }

    private List<Integer> found(Future<List<Integer>> ended) {
        try {
            return ended.get();
        } catch (ExecutionException e) {
            LOG.error("migration {}: which ranks are held cannot be said", id, e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return held;
    }

    /** The migration's thread ends. */
    public void close() {
        open = null;
        inbox.close();
    }
}
