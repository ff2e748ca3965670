package io.ppmr.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.logging.LogFields;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.source.MigrationProgress.Step;
import io.ppmr.source.MigrationReport.Outcome;
import io.ppmr.source.session.SessionEvent;
import io.ppmr.transaction.Coordinator;
import io.ppmr.transaction.CoordinatorEvent;
import io.ppmr.transaction.CoordinatorState;
import io.ppmr.transaction.OpenMigration;
import io.ppmr.transaction.OperatorCall;
import io.ppmr.transaction.OperatorDesk;
import io.ppmr.transaction.OperatorWord;
import io.ppmr.transaction.Ruling;
import io.ppmr.transaction.TransactionMessage;
import java.io.IOException;
import java.time.Duration;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/**
 * One migration at the source, new or taken up again from the journal: feeds what happens to the {@link Coordinator},
 * whose decisions {@link SourceDuties} carries out. Runs on a thread of its own until the transaction is over, however
 * long a voter cannot be reached; the report may come earlier, then as "in doubt".
 */
final class SourceMigration {
    private static final Logger LOG = LoggerFactory.getLogger(SourceMigration.class);
    private static final Duration POLL = Duration.ofMillis(5);
    private static final long LOOK_NS = TimeUnit.SECONDS.toNanos(1);
    private static final Duration QUIET_POLL = Duration.ofMillis(100);

    private final String id;
    private final SourceSettings settings;
    private final MigrationRecord record;
    private final SourceDuties duties;
    private final Coordinator coordinator;
    private final CompletableFuture<MigrationReport> report = new CompletableFuture<>();
    private final Cancellation cancellation;
    private final Set<String> reached = new HashSet<>();
    private final OperatorDesk operators;
    private final boolean takenUp;
    private boolean calledOff;
    private long openSinceNs;
    private long lookedNs;
    private CoordinatorState.Phase looked;
    private volatile OpenMigration open;
    private boolean paused;

    /** @param takenUp an earlier run of the service has begun it */
    SourceMigration(
            String id,
            SourceSettings settings,
            MigrationRecord record,
            SourceDuties duties,
            Coordinator coordinator,
            Cancellation cancellation,
            boolean takenUp) {
        this.id = id;
        this.settings = settings;
        this.record = record;
        this.duties = duties;
        this.coordinator = coordinator;
        this.cancellation = cancellation;
        this.takenUp = takenUp;
        this.operators = new OperatorDesk(id, new Words());
    }

    String id() {
        return id;
    }

    /**
     * Calls it off: the originals go on. Any thread.
     *
     * @return whether it was not too late
     */
    boolean cancel(String reason) {
        return cancellation.cancel(reason);
    }

    /** Takes an operator's word. Any thread; false once the migration is over. */
    boolean take(OperatorCall call) {
        return operators.take(call);
    }

    /** Where it stands, if an operator should know of it. Any thread. */
    Optional<OpenMigration> open() {
        return Optional.ofNullable(open);
    }

    /** Waits for the report. */
    MigrationReport await() throws InterruptedException {
        try {
            return report.get();
        } catch (ExecutionException e) {
            throw new IllegalStateException("migration " + id + " broke off: " + e.getCause(), e.getCause());
        }
    }

    /** Returns true while a rollback waits for checkpoints that write from within their processes. Any thread. */
    boolean waitsForCheckpoints() {
        return duties.waitsFor().isPresent();
    }

    /** Whether its thread may end within this time. */
    boolean awaitEnd(Duration atMost) throws InterruptedException {
        try {
            report.get(atMost.toMillis(), TimeUnit.MILLISECONDS);
            return true;
        } catch (TimeoutException e) {
            return false;
        } catch (ExecutionException e) {
            LOG.debug("migration {} broke off", id, e);
            return true;
        }
    }

    /** Whether the agents of its sessions do their work. Any thread; blocks it. */
    boolean goesRound(long limitNs) {
        return duties.goesRound(limitNs);
    }

    /**
     * Runs it to the end of the transaction.
     *
     * @param over told when nothing of it is left, before the report is given
     */
    void run(Runnable begin, Runnable over) {
        MDC.put(LogFields.MIGRATION, id);
        Throwable defect = null;
        try {
            begin.run();
            while (!coordinator.state().isOver() || !coordinator.isSettled()) {
                step();
            }
        } catch (RuntimeException | Error e) {
            LOG.error("migration {}: a defect of this service; the journal says how far it came", id, e);
            defect = e;
        }
        try {
            duties.close();
        } catch (RuntimeException e) {
            LOG.error("migration {}: not everything of it could be taken down", id, e);
            defect = defect == null ? e : defect;
        }
        open = null;
        over.run();
        operators.close();
        if (defect == null) {
            report.complete(duties.report());
        } else {
            report.completeExceptionally(defect);
        }
    }

    private void step() {
        try {
            Attempt.Heard heard = duties.poll(duties.isMoving() ? POLL : QUIET_POLL);
            if (heard != null) {
                MDC.put(LogFields.PEER, heard.participant());
                hear(heard.participant(), heard.event());
            }
            if (duties.isMoving()) {
                duties.work(this::imageComplete);
            }
        } catch (IOException | CheckpointException e) {
            fail(String.valueOf(e.getMessage()), "");
        } catch (InterruptedException e) {
            // The service ends: what is not decided is rolled back; what is decided is carried on by the next one.
            cancellation.cancel("the source's service ends");
        } finally {
            MDC.remove(LogFields.PEER);
            MDC.remove(LogFields.RANK);
        }
        duties.takeFailure().ifPresent(failure -> fail(failure.reason(), failure.participant()));
        duties.takeFenced()
                .ifPresent(fenced -> coordinator.fenceEnded(fenced.participant(), fenced.off(), System.nanoTime()));
        if (!calledOff && cancellation.reason().isPresent()) {
            calledOff = true;
            coordinator.callOff(cancellation.reason().get(), System.nanoTime());
        }
        if (!paused && record.pausedNs() > 0) {
            paused = true;
            coordinator.suspended(System.nanoTime() - record.pausedNs());
        }
        operators.work(System.nanoTime());
        coordinator.tick(System.nanoTime());
        follow();
        look();
    }

    /** Notes for whoever asks where it stands; not at each step, as it looks at processes. */
    private void look() {
        CoordinatorState.Phase phase = coordinator.state().phase();
        if (phase == looked && System.nanoTime() - lookedNs < LOOK_NS) {
            return;
        }
        looked = phase;
        lookedNs = System.nanoTime();
        String waitsFor = duties.waitsFor().orElseGet(coordinator::waitsFor);
        open = waitsFor == null && !takenUp
                ? null
                : new OpenMigration(
                        id,
                        phase.name(),
                        takenUp,
                        duties.heldRanks(),
                        System.currentTimeMillis()
                                - TimeUnit.NANOSECONDS.toMillis(lookedNs - coordinator.waitsSinceNs()),
                        waitsFor);
    }

    /** What operators say, as the coordinator takes it. */
    private final class Words implements OperatorDesk.Migration {
        @Override
        public Ruling ruling(OperatorWord word) {
            return coordinator.ruling(word, settings.transaction().fence().isPresent());
        }

        @Override
        public void resolve(OperatorWord word) {
            coordinator.resolve(word, System.nanoTime());
        }

        @Override
        public boolean isOver() {
            return coordinator.state().isOver() && coordinator.isSettled();
        }

        @Override
        public String ending() {
            return coordinator.state().phase() == CoordinatorState.Phase.COMMITTED
                    ? "Migration " + id + " has committed: nothing of it is left here."
                    : "Migration " + id + " is rolled back: the originals that are left go on here.";
        }

        @Override
        public String waitsFor() {
            return coordinator.waitsFor();
        }

        @Override
        public boolean seeksProof() {
            return false;
        }
    }

    private void imageComplete(int place) {
        coordinator.on(
                new CoordinatorEvent.ImageComplete(duties.participant(place), duties.heldFor(place)),
                System.nanoTime());
    }

    private void hear(String participant, SessionEvent event) {
        if (event instanceof SessionEvent.Lost lost) {
            duties.lost(participant);
            reached.remove(participant);
            coordinator.linkDown(participant, System.nanoTime());
            fail(participant + ": " + lost.reason(), participant);
            return;
        }
        if (reached.add(participant)) {
            coordinator.linkUp(participant, System.nanoTime());
        }
        ControlMessage message = ((SessionEvent.Said) event).message();
        if (message instanceof ControlMessage.Failed failed) {
            fail("the target fails: " + failed.reason(), participant);
        } else {
            Optional<TransactionMessage> said = duties.toTransaction(participant, message);
            if (said.isPresent() && (!isLastVote(participant, said.get()) || decides())) {
                coordinator.heard(participant, said.get(), System.nanoTime());
            }
        }
    }

    /** Whether every other participant has voted: the decision may follow, and nobody can call it off any more. */
    private boolean isLastVote(String participant, TransactionMessage said) {
        return said instanceof TransactionMessage.Prepared
                && coordinator.state().members().stream()
                        .allMatch(member -> member.voted() || member.name().equals(participant));
    }

    private boolean decides() {
        try {
            cancellation.decide();
            return true;
        } catch (IOException e) {
            LOG.info("migration {}: {}", id, e.getMessage());
            return false;
        }
    }

    /** Something went wrong; what follows from it is the coordinator's. */
    private void fail(String reason, String participant) {
        LOG.warn("migration {}: {}", id, reason);
        coordinator.fail(reason, participant, System.nanoTime());
    }

    /** Shows where it stands, and gives an early report where somebody has waited for long. */
    private void follow() {
        CoordinatorState.Phase phase = coordinator.state().phase();
        Step step = stepOf(phase);
        if (step != null && record.step() != step) {
            record.step(step);
        }
        boolean open = phase == CoordinatorState.Phase.COMMITTING
                || phase == CoordinatorState.Phase.ROLLING_BACK
                || phase == CoordinatorState.Phase.CONFIRMING
                || phase == CoordinatorState.Phase.BROKEN;
        // Checkpoints that are waited for have a deadline of their own, and no target is to blame for it.
        open &= duties.waitsFor().isEmpty();
        if (!open) {
            openSinceNs = 0;
        } else if (openSinceNs == 0) {
            openSinceNs = System.nanoTime();
        }
        boolean longOpen = open
                && System.nanoTime() - openSinceNs > settings.decisionDeadline().toNanos();
        if ((longOpen || phase == CoordinatorState.Phase.BROKEN) && !report.isDone()) {
            String why = duties.lastWords();
            LOG.error("migration {} is IN DOUBT: {}", id, why);
            report.complete(record.report(Outcome.IN_DOUBT, why));
        }
    }

    private static Step stepOf(CoordinatorState.Phase phase) {
        return switch (phase) {
            case CONFIRMING, COMMITTING -> Step.COMMIT;
            case ROLLING_BACK -> Step.ROLL_BACK;
            default -> null;
        };
    }
}
