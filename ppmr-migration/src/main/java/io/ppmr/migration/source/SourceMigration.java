package io.ppmr.migration.source;

import io.ppmr.migration.OperatorView;
import io.ppmr.migration.QuietPoll;
import io.ppmr.migration.ReconnectingLink;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.os.LogContext;
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
 * One migration at the source: hears what happens, feeds it to the {@link Coordinator}, and has {@link SourceEffects}
 * carry out what that decides. Runs on one thread, which owns everything here, until the transaction is over, however
 * long a voter cannot be reached; the report may come earlier, then as "in doubt". Its thread never waits for a
 * process, a file, a disk or a connection: a {@link SerialWorker} does that.
 */
final class SourceMigration
        implements OwnedMigration,
                OperatorView.ViewedMigration,
                SourceEffects.EffectEvents,
                OrderedAttempts.AttemptEvents {
    private static final Logger LOG = LoggerFactory.getLogger(SourceMigration.class);
    private static final long QUIET_POLL_MS = 100;
    private static final Duration WORKER_LIMIT = Duration.ofSeconds(10);
    /** After this time the report is given, though something of the migration cannot be taken down. */
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
    /** The participants of this attempt that have said that they fail, and those that are reached. */
    private final Set<String> failing = new HashSet<>();

    private final Set<String> reached = new HashSet<>();
    private Future<List<Integer>> heldLook;
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
     * Makes one that has not begun.
     *
     * @param attempts makes its attempts
     * @param number of the last attempt that the journal knows
     * @param starts has the coordinator begin
     * @param reported told the report once, perhaps before the end; on another thread
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
        this.heldLook = CompletableFuture.completedFuture(List.of());
        cancellation.tell(reason -> inbox.wake());
        // Asked while this migration's thread may be busy: what it has found last.
        record.waitsFor(() -> this.attempts.waitsFor().or(() -> operators.open().map(OpenMigration::waitsFor)));
    }

    // ---- any thread ----------------------------------------------------------------------------------------------

    String id() {
        return record.migrationId();
    }

    /** Returns what hears of an attempt's targets. */
    Attempt.AttemptListener listener() {
        return inbox::add;
    }

    /** Notes that an earlier run of the service has begun it. */
    void isRecorded() {
        operators.takenUp();
    }

    @Override
    public boolean take(OperatorInbox.PendingDecision call) {
        boolean taken = operators.take(call);
        inbox.wake();
        return taken;
    }

    /** Returns its state of a moment ago; one that waits looks again. */
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
    public void fenced(String participant, boolean off) {
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
                throw new IllegalStateException("migration " + id() + " broke off: " + defect.get(), defect.get());
            }
            outlook.over();
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
            LOG.error("migration {}: a defect of this service; the journal says how far it came", id(), e);
            return Optional.of(e);
        }
    }

    private Optional<Throwable> takeDown(Optional<Throwable> defect) {
        List<ReconnectingLink> left = links.forget();
        Optional<Throwable> failure = done(() -> {
            actions.takeDown(left, defect.isEmpty());
            return true;
        });
        failure.ifPresent(e -> LOG.error("migration {}: not everything of it could be taken down", id(), e));
        Optional<Throwable> unwiped = done(() -> {
            actions.wipe();
            return true;
        });
        unwiped.ifPresent(e -> LOG.error("migration {}: its bytes may be left in the pool", id(), e));
        try {
            if (!worker.close(WORKER_LIMIT)) {
                LOG.error("migration {}: its work has not ended", id());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return defect.or(() -> failure).or(() -> unwiped);
    }

    /**
     * Has the worker do it, and waits: there is nothing else to do, and the node is not free before. People are not
     * kept waiting for a disk or a mount that hangs. Gives why it failed.
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
                            "migration {} is over, and keeps this node: its files cannot be taken down for {} s now."
                                    + " Remedy: see which disk or mount does not answer",
                            id(),
                            TAKE_DOWN_S,
                            e);
                    outlook.isNotTakenDown();
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
            inbox.next(sleepMs()).ifPresent(this::hear);
        } catch (InterruptedException e) {
            // The service ends: what is not decided is rolled back; what is decided is carried on by the next one.
            cancellation.cancel("the source's service ends");
        } catch (RuntimeException e) {
            defect("what was heard cannot be dealt with", e);
        }
        try {
            goOn();
        } catch (RuntimeException e) {
            defect("what is due cannot be done", e);
        }
    }

    /** Returns the time to sleep until something is due, unless it hears of something before. */
    private long sleepMs() {
        if (operators.isAsked()) {
            return QUIET_POLL_MS;
        }
        return QuietPoll.clampMs(
                outlook.dueNs(coordinator.nextDeadlineNs() - nowNs()),
                QUIET_POLL_MS,
                service.settings().node().silenceLimit());
    }

    /** Does what has come to it otherwise than by a message, and what is due by now. */
    private void goOn() {
        if (effects.hasEnded()) {
            coordinator.wake(nowNs());
        }
        inbox.work();
        if (!calledOff && cancellation.reason().isPresent()) {
            calledOff = true;
            coordinator.callOff(cancellation.reason().get(), nowNs());
        }
        if (coordinator.state().phase() != CoordinatorPhase.NEW) {
            operators.work();
        }
        coordinator.tick(nowNs());
        outlook.follow(coordinator, waitsForCheckpoints());
    }

    @Override
    public void begins(int attempt) {
        number = attempt;
        failing.clear();
    }

    /** Nothing commits this attempt any more, so that what may follow can be called off. */
    @Override
    public void rollsBack() {
        cancellation.reopen();
    }

    /** Hears something, unless it is of an older attempt. */
    private void hear(Attempt.InboxEvent next) {
        if (next.attempt() == number) {
            try (LogContext.Scope about = LogContext.peer(next.participant())) {
                hear(next.participant(), next.event());
            }
        }
    }

    private void hear(String participant, SessionEvent event) {
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
        // Nothing is decided by what is restored. There is one for each rank, and more than wait for a long effect.
        if (message instanceof ControlMessage said && !(said instanceof ControlMessage.Restored)) {
            coordinator.heard(participant, number, said, this::decides, nowNs());
        }
    }

    /** A participant fails; what it has said to the attempt before is nothing to one that is about to begin. */
    private void failOf(String participant, String reason) {
        if (number == coordinator.state().attempt()) {
            fail(reason, participant);
        }
    }

    /** Notes what a message says of the transfer. */
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

    /** The last vote comes: the decision may follow, and nobody can call it off any more. */
    private boolean decides() {
        try {
            cancellation.decide();
            return true;
        } catch (IOException e) {
            LOG.info("migration {}: {}", id(), e.getMessage());
            return false;
        }
    }

    /**
     * A failure here may follow from that of a target, which was heard meanwhile. Then that is the reason, and another
     * target may take the place.
     */
    private void fail(int attempt, Attempt.Failure failure) {
        for (Optional<Attempt.InboxEvent> next = inbox.next(); next.isPresent(); next = inbox.next()) {
            hear(next.get());
        }
        if (attempt == coordinator.state().attempt()) {
            fail(failure.reason(), failure.participant());
        }
    }

    /** Something went wrong; what follows from it is the coordinator's. */
    private void fail(String reason, String participant) {
        LOG.warn("migration {}: {}", id(), reason);
        coordinator.fail(reason, participant, nowNs());
    }

    /**
     * A defect of this service ends the migration as any other failure does: rolled back while that is possible. Its
     * thread goes on: what is decided has to be done.
     */
    private void defect(String what, RuntimeException e) {
        outlook.sayDefect(what, e);
        failed(coordinator.state().attempt(), new Attempt.Failure("a defect of this service: " + what + ": " + e, ""));
    }

    // ---- what operators ask and say ------------------------------------------------------------------------------

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
        if (heldLook.isDone()) {
            heldLook = SideTask.start("ppmr-held-look", originals::heldRanks, inbox::wake);
        }
        return heldLook;
    }

    @Override
    public OperatorDecision.DecisionPreview ruling(OperatorDecision word) {
        return coordinator.ruling(word, service.settings().fence().isPresent());
    }

    @Override
    public void resolve(OperatorDecision word) {
        coordinator.resolve(word, nowNs());
    }

    @Override
    public String ending() {
        return coordinator.state().phase() == CoordinatorPhase.COMMITTED
                ? "Migration " + id() + " has committed: nothing of it is left here."
                : "Migration " + id() + " is rolled back: the originals that are left go on here.";
    }

    @Override
    public String waitsFor() {
        return attempts.waitsFor().orElseGet(coordinator::waitsFor);
    }

    @Override
    public boolean seeksProof() {
        return false;
    }
}
