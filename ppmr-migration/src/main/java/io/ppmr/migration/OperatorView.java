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
 * A migration from the view of operators, with their decisions, at the source and at a target. Any thread may call
 * {@link #submit} and {@link #open}. The migration's thread calls the other methods.
 */
public final class OperatorView {
    private static final Logger LOG = LoggerFactory.getLogger(OperatorView.class);
    private static final long REFRESH_NS = TimeUnit.SECONDS.toNanos(1);

    /** The queries to the migration, on its thread. */
    public interface ViewedMigration extends OperatorInbox.DecidableMigration {
        /** Returns the name of the migration's phase, for operators. */
        String phase();

        /** Returns the time from which the migration has been waiting, on the view's clock. */
        long waitsSinceNs();

        /**
         * Lists the ranks that are proved to be held now. The proof may end later. Until then, a further call returns
         * the same future.
         */
        Future<List<Integer>> heldRanks();
    }

    private final String id;
    private final ViewedMigration migration;
    private final OperatorInbox inbox;
    private final LongSupplier clock;
    private boolean recovered;
    private long refreshedNs;
    private String shownPhase = "";
    private Optional<Future<List<Integer>>> proof = Optional.empty();
    private List<Integer> held = List.of();
    private volatile OpenMigration open;

    /** @param clock the migration's clock, in nanoseconds */
    public OperatorView(String migrationId, ViewedMigration migration, LongSupplier clock) {
        this.clock = clock;
        this.id = migrationId;
        this.migration = migration;
        this.inbox = new OperatorInbox(migrationId, migration);
    }

    /** Adds an operator's decision. Returns false once the migration's thread ended. */
    public boolean submit(OperatorInbox.PendingDecision call) {
        return inbox.submit(call);
    }

    /** Returns true while an operator waits for an answer. */
    public boolean hasPending() {
        return inbox.hasPending();
    }

    /** Returns the state of the migration, if an operator should see it. */
    public Optional<OpenMigration> open() {
        return Optional.ofNullable(open);
    }

    /** Notes that an earlier run of the service began the migration. */
    public void markRecovered() {
        recovered = true;
    }

    /**
     * Handles operators' decisions, and updates the shown state. The state is not updated at each step, because each
     * update scans processes.
     */
    public void process() {
        inbox.process(clock.getAsLong());
        String phase = migration.phase();
        if (!phase.equals(shownPhase) || clock.getAsLong() - refreshedNs >= REFRESH_NS) {
            shownPhase = phase;
            refreshedNs = clock.getAsLong();
            if (migration.isOver() || (migration.waitsFor() == null && !recovered)) {
                open = null;
                proof = Optional.empty();
                return;
            }
            // A proof that is late is not awaited. The last result is shown instead.
            proof.ifPresent(late -> show(held));
            proof = Optional.of(migration.heldRanks());
        }
        if (proof.isPresent() && proof.get().isDone()) {
            held = resultOf(proof.get());
            proof = Optional.empty();
            show(held);
        }
    }

    private void show(List<Integer> ranks) {
        long waitedMs = TimeUnit.NANOSECONDS.toMillis(clock.getAsLong() - migration.waitsSinceNs());
        open = new OpenMigration(
                id,
                migration.phase(),
                recovered,
                ranks,
                System.currentTimeMillis() - waitedMs,
                migration.isOver() ? null : migration.waitsFor());
    }

    private List<Integer> resultOf(Future<List<Integer>> ended) {
        try {
            return ended.get();
        } catch (ExecutionException e) {
            LOG.error("migration {}: the held ranks could not be determined", id, e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return held;
    }

    /** Ends the view, because the migration's thread ends. */
    public void close() {
        open = null;
        inbox.close();
    }
}
