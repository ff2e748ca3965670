package io.ppmr.migration.source;

import io.ppmr.linux.LogContext;
import io.ppmr.migration.OperatorView;
import io.ppmr.migration.QuietPoll;
import io.ppmr.migration.ReconnectingLink;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Message;
import io.ppmr.transaction.Coordinator;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorInbox;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorState.CoordinatorPhase;
import io.ppmr.transport.SessionEvent;
import java.io.IOException;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One migration at the source. It passes events to the {@link Coordinator}, and {@link SourceEffects} carries out the
 * decisions. It runs on one thread, which owns all its fields, until the transaction is over, even if a voter is
 * unreachable for long. The report may come earlier, as "in doubt". The thread never waits for a process, a file, a
 * disk or a connection. A {@link SerialWorker} does that.
 */
final class SourceMigration
        implements OwnedMigration,
                OperatorView.ViewedMigration,
                SourceEffects.EffectEvents,
                OrderedAttempts.AttemptEvents {
    private static final Logger LOG = LoggerFactory.getLogger(SourceMigration.class);
    private static final long QUIET_POLL_MS = 100;
    private static final Duration WORKER_LIMIT = Duration.ofSeconds(10);
    /** Time after which the report is sent, although resources of the migration could not be released. */
    private static final long TAKE_DOWN_S = 20;

    private final SourceContext service;
    private final MigrationRecord record;
    private final OriginalRanks originals;
    private final Cancellation cancellation;
    private final Consumer<Coordinator> starts;
    private final MigrationInbox inbox;
    private final ParticipantLinks links;
    private final Attempts attempts;
    private final SourceActions actions;
    private final SerialWorker worker;
    private final MigrationOutlook outlook;
    private final SourceEffects effects;
    private final Coordinator coordinator;
    private final OperatorView operators;
    /** The participants of this attempt that have reported a failure, and those that are reachable. */
    private final Set<String> failing = new HashSet<>();

    private final Set<String> reached = new HashSet<>();
    private Future<List<Integer>> heldProof;
    private int number;
    private boolean calledOff;

    /** The parts of a migration. */
    record Parts(
            SourceContext service,
            MigrationRecord record,
            JobNotes job,
            MigrationSecret secret,
            OriginalRanks originals,
            HookRunner hooks,
            Cancellation cancellation) {}

    /**
     * Makes a migration that has not begun.
     *
     * @param attempts makes its attempts
     * @param number the last attempt in the journal
     * @param starts starts the coordinator
     * @param reported receives the report once, perhaps before the end; on another thread
     */
    SourceMigration(
            Parts parts,
            Function<SourceMigration, Attempts> attempts,
            int number,
            Consumer<Coordinator> starts,
            ReportListener reported) {
        this.service = parts.service();
        this.record = parts.record();
        this.originals = parts.originals();
        this.cancellation = parts.cancellation();
        this.number = number;
        this.starts = starts;
        SourceSettings settings = service.settings();
        this.inbox = new MigrationInbox(settings.node().silenceLimit().dividedBy(2));
        this.links = new ParticipantLinks(service, id(), parts.secret(), inbox::add);
        this.attempts = attempts.apply(this);
        this.actions = new SourceActions(service, parts.job(), record, originals, parts.hooks(), this.attempts);
        this.outlook = new MigrationOutlook(record, settings.limits().decisionDeadline(), reported);
        try (LogContext.Scope about = LogContext.migration(id())) {
            this.worker = new SerialWorker("ppmr-migration-work", this.attempts, inbox::wake);
        }
        this.effects = new SourceEffects(id(), service, actions, this.attempts, links, outlook, worker, this);
        this.coordinator = effects.coordinator();
        this.operators = new OperatorView(id(), this, service.clock());
        this.heldProof = CompletableFuture.completedFuture(List.of());
        cancellation.onCancel(reason -> inbox.wake());
        // The record may call this while the migration's thread is busy. It gets the last known state.
        record.setWaitReason(
                () -> this.attempts.waitsFor().or(() -> operators.open().map(OpenMigration::waitsFor)));
    }

    // ---- any thread ----------------------------------------------------------------------------------------------

    String id() {
        return record.migrationId();
    }

    /** Returns the listener for an attempt's targets. */
    Attempt.AttemptListener listener() {
        return inbox::add;
    }

    /** Notes that an earlier run of the service began the migration. */
    void markRecovered() {
        operators.markRecovered();
    }

    @Override
    public boolean submit(OperatorInbox.PendingDecision call) {
        boolean taken = operators.submit(call);
        inbox.wake();
        return taken;
    }

    /** Returns the last known state. A waiting migration refreshes it. */
    @Override
    public Optional<OpenMigration> open() {
        inbox.wake();
        return operators.open();
    }

    @Override
    public boolean waitsForCheckpoints() {
        return attempts.waitsFor().isPresent();
    }

    @Override
    public boolean responds(long limitNs) {
        return attempts.responds(limitNs);
    }

    @Override
    public void failed(int attempt, Attempt.Failure failure) {
        inbox.post(() -> fail(attempt, failure));
    }

    @Override
    public void imageComplete(int attempt, String participant, List<PlannedRank> held) {
        inbox.post(
                () -> coordinator.onAttempt(attempt, new CoordinatorEvent.ImageComplete(participant, held), nowNs()));
    }

    @Override
    public void paused() {
        inbox.post(() -> coordinator.suspended(nowNs() - record.pausedNs()));
    }

    @Override
    public void fenceEnded(String participant, boolean off) {
        inbox.post(() -> coordinator.fenceEnded(participant, off, nowNs()));
    }

    // ---- the migration's thread ----------------------------------------------------------------------------------

    private long nowNs() {
        return service.clock().getAsLong();
    }

    @Override
    public void run() throws InterruptedException {
        try (LogContext.Scope about = LogContext.migration(id())) {
            Optional<Throwable> defect = takeDown(runToEnd());
            operators.close();
            if (defect.isPresent()) {
                throw new IllegalStateException("migration " + id() + " failed: " + defect.get(), defect.get());
            }
            outlook.sendFinalReport();
        }
    }

    private Optional<Throwable> runToEnd() {
        try {
            starts.accept(coordinator);
            while (!isOver()) {
                step();
            }
            return Optional.empty();
        } catch (RuntimeException | Error e) {
            LOG.error("migration {}: a defect of this service; the journal has its last step", id(), e);
            return Optional.of(e);
        }
    }

    private Optional<Throwable> takeDown(Optional<Throwable> defect) {
        List<ReconnectingLink> left = links.removeAll();
        Optional<Throwable> failure = done(() -> {
            actions.takeDown(left, defect.isEmpty());
            return true;
        });
        failure.ifPresent(e -> LOG.error("migration {}: not all of its resources could be released", id(), e));
        Optional<Throwable> unwiped = done(() -> {
            actions.wipe();
            return true;
        });
        unwiped.ifPresent(e -> LOG.error("migration {}: its bytes may remain in the pool", id(), e));
        try {
            if (!worker.close(WORKER_LIMIT)) {
                LOG.error("migration {}: its worker has not ended", id());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return defect.or(() -> failure).or(() -> unwiped);
    }

    /**
     * Runs work on the worker and waits, because the node is not free before. The report does not wait for a hanging
     * disk or mount. Returns the cause of a failure.
     */
    private Optional<Throwable> done(Callable<Boolean> work) {
        boolean interrupted = false;
        Future<Boolean> piece = worker.start(work);
        try {
            while (true) {
                try {
                    piece.get(TAKE_DOWN_S, TimeUnit.SECONDS);
                    return Optional.empty();
                } catch (TimeoutException e) {
                    LOG.error(
                            "migration {} is over, but still occupies this node: its files could not be closed for"
                                    + " {} s."
                                    + " Remedy: find the disk or mount that does not answer",
                            id(),
                            TAKE_DOWN_S,
                            e);
                    outlook.reportBeforeRelease();
                } catch (InterruptedException e) {
                    interrupted = true;
                } catch (ExecutionException e) {
                    return Optional.of(e.getCause());
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    @Override
    public boolean isOver() {
        return coordinator.state().isOver() && coordinator.isSettled();
    }

    private void step() {
        try {
            inbox.next(sleepMs()).ifPresent(this::handle);
        } catch (InterruptedException e) {
            // The service ends. An undecided migration is rolled back; the service's next run continues a decided one.
            cancellation.cancel("the source's service ends");
        } catch (RuntimeException e) {
            defect("an event could not be handled", e);
        }
        try {
            runDueWork();
        } catch (RuntimeException e) {
            defect("due work could not be done", e);
        }
    }

    /** Returns the time to sleep until the next work, unless an event arrives before. */
    private long sleepMs() {
        if (operators.hasPending()) {
            return QUIET_POLL_MS;
        }
        return QuietPoll.clampMs(
                outlook.dueNs(coordinator.nextDeadlineNs() - nowNs()),
                QUIET_POLL_MS,
                service.settings().node().silenceLimit());
    }

    /** Runs posted tasks and the work that is due. */
    private void runDueWork() {
        if (effects.hasEnded()) {
            coordinator.wake(nowNs());
        }
        inbox.runPosted();
        if (!calledOff && cancellation.reason().isPresent()) {
            calledOff = true;
            coordinator.callOff(cancellation.reason().get(), nowNs());
        }
        if (coordinator.state().phase() != CoordinatorPhase.NEW) {
            operators.process();
        }
        coordinator.tick(nowNs());
        outlook.follow(coordinator, waitsForCheckpoints());
    }

    @Override
    public void attemptBegins(int attempt) {
        number = attempt;
        failing.clear();
    }

    /** This attempt can no longer be committed, so a cancellation is possible again. */
    @Override
    public void rollbackDecided() {
        cancellation.reopen();
    }

    /** Handles an event, unless it belongs to an older attempt. */
    private void handle(Attempt.InboxEvent next) {
        if (next.attempt() == number) {
            try (LogContext.Scope about = LogContext.peer(next.participant())) {
                handle(next.participant(), next.event());
            }
        }
    }

    private void handle(String participant, SessionEvent event) {
        if (event instanceof SessionEvent.LinkLost lost) {
            links.lost(participant);
            reached.remove(participant);
            coordinator.linkDown(participant, nowNs());
            failOf(participant, participant + ": " + lost.reason());
            return;
        }
        if (reached.add(participant)) {
            coordinator.linkUp(participant, nowNs());
        }
        Message message = ((SessionEvent.MessageReceived) event).message();
        if (message instanceof DataMessage.TransferFailure failed) {
            if (failing.add(participant)) {
                failOf(participant, "the target fails: " + failed.reason());
            }
            return;
        }
        note(participant, message);
        // Restored ranks decide nothing. There is one message for each rank, more than may wait during a long effect.
        if (message instanceof ControlMessage received && !(received instanceof ControlMessage.Restored)) {
            coordinator.onMessage(participant, number, received, this::takeDecision, nowNs());
        }
    }

    /** Handles a participant's failure. Its earlier messages do not count for the next attempt. */
    private void failOf(String participant, String reason) {
        if (number == coordinator.state().attempt()) {
            fail(reason, participant);
        }
    }

    /** Records a message's facts about the transfer. */
    private void note(String participant, Message message) {
        int place = attempts.plan().addresses().indexOf(participant);
        if (message instanceof DataMessage.Progress progress) {
            record.progress(place, progress);
        } else if (message instanceof ControlMessage.Restored restored) {
            try (LogContext.Scope about = LogContext.rank(restored.rank())) {
                LOG.info("migration {}: rank {} is restored and held on {}", id(), restored.rank(), participant);
            }
            record.restored(restored);
        } else if (message instanceof ControlMessage.Prepared prepared) {
            record.prepared(place, prepared.report());
        }
    }

    /** Takes the decision for the last vote. Nothing can call the migration off after it. */
    private boolean takeDecision() {
        try {
            cancellation.decide();
            return true;
        } catch (IOException e) {
            LOG.info("migration {}: {}", id(), e.getMessage());
            return false;
        }
    }

    /**
     * Handles a failure on this node. It may follow from a target's failure whose message arrived in the meantime. Then
     * that is the reason, and another target may replace it.
     */
    private void fail(int attempt, Attempt.Failure failure) {
        for (Optional<Attempt.InboxEvent> next = inbox.next(); next.isPresent(); next = inbox.next()) {
            handle(next.get());
        }
        if (attempt == coordinator.state().attempt()) {
            fail(failure.reason(), failure.participant());
        }
    }

    /** Reports a failure to the coordinator, which decides what follows. */
    private void fail(String reason, String participant) {
        LOG.warn("migration {}: {}", id(), reason);
        coordinator.fail(reason, participant, nowNs());
    }

    /**
     * Handles a defect of this service. It ends the migration as any other failure does, with a rollback if possible.
     * Its thread continues, because decisions must be carried out.
     */
    private void defect(String what, RuntimeException e) {
        outlook.reportDefect(what, e);
        failed(coordinator.state().attempt(), new Attempt.Failure("a defect of this service: " + what + ": " + e, ""));
    }

    // ---- operators' queries and decisions ---------------------------------------------------------------------------

    @Override
    public String phase() {
        return coordinator.writtenState().phase().name();
    }

    @Override
    public long waitsSinceNs() {
        return coordinator.waitsSinceNs();
    }

    @Override
    public Future<List<Integer>> heldRanks() {
        if (heldProof.isDone()) {
            heldProof = SideTask.start("ppmr-held-look", originals::heldRanks, inbox::wake);
        }
        return heldProof;
    }

    @Override
    public OperatorDecision.DecisionPreview preview(OperatorDecision decision) {
        return coordinator.preview(decision, service.settings().fence().isPresent());
    }

    @Override
    public void resolve(OperatorDecision decision) {
        coordinator.resolve(decision, nowNs());
    }

    @Override
    public String describeEnd() {
        return coordinator.state().phase() == CoordinatorPhase.COMMITTED
                ? "Migration " + id() + " has committed: no process of it is left here."
                : "Migration " + id() + " is rolled back: the remaining originals continue here.";
    }

    @Override
    public String waitsFor() {
        return attempts.waitsFor().orElseGet(coordinator::waitsFor);
    }

    @Override
    public boolean isSeekingProof() {
        return false;
    }
}
