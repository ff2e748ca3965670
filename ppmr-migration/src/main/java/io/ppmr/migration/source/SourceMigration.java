package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.FrozenCgroups;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.migration.OperatorView;
import io.ppmr.migration.PersistentLink;
import io.ppmr.migration.QuietPoll;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import io.ppmr.migration.node.JobProbe;
import io.ppmr.migration.node.Preparation;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.migration.source.MigrationProgress.Step;
import io.ppmr.os.HostPort;
import io.ppmr.os.LogContext;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.MessageFields;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transaction.Coordinator;
import io.ppmr.transaction.EffectExecutor;
import io.ppmr.transaction.journal.Outcome;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorInbox;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorEvent.Originals;
import io.ppmr.transaction.rules.CoordinatorState;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.TransactionTimes;
import io.ppmr.transport.Backlog;
import io.ppmr.transport.SessionEvent;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BiFunction;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One migration at the source, new or taken up again from the journal: owns its state, feeds what happens to the
 * {@link Coordinator}, and carries out what that decides. Runs on a thread of its own, which owns everything here,
 * until the transaction is over, however long a voter cannot be reached; the report may come earlier, then as "in
 * doubt".
 */
final class SourceMigration implements EffectExecutor, OperatorView.Migration {
    private static final Logger LOG = LoggerFactory.getLogger(SourceMigration.class);
    private static final Duration POLL = Duration.ofMillis(5);
    private static final long QUIET_POLL_MS = 100;
    private static final long SAY_NS = TimeUnit.SECONDS.toNanos(10);
    /** The heap for messages that its thread has not dealt with yet: there are some for each rank. */
    private static final int HEARD_BYTES = 16 << 20;

    /** Says nothing: its thread looks at what it does not hear of. */
    private static final Attempt.Heard LOOK = new Attempt.Heard(-1, "", null);

    /** A fence command has ended: whether the participant's node is proved off. */
    private record Fenced(String participant, boolean off) {}

    private final String id;
    private final SourceContext service;
    private final LongSupplier clock;
    private final Attempt.Subject subject;
    private final JobNotes job;
    private final MigrationRecord record;
    private final OriginalRanks originals;
    private final NextAttempts nextAttempts;
    private final HookRunner hooks;
    private final Cancellation cancellation;
    private final Coordinator coordinator;
    private final OperatorView operators;
    /** Its records in the journal when an earlier run of the service has begun it; else empty. */
    private final List<TransactionRecord> takenUp;

    private final CompletableFuture<MigrationReport> report = new CompletableFuture<>();
    private final BlockingQueue<Attempt.Heard> heard = new LinkedBlockingQueue<>();
    /** Of the messages in {@link #heard} but those of progress. */
    private final Backlog backlog;
    /** The last such word of each target, for which one stands in {@link #heard}. */
    private final Map<String, Attempt.Heard> progress = new ConcurrentHashMap<>();

    /** The participants of this attempt that have said that they fail. */
    private final Set<String> failing = new HashSet<>();

    private final Queue<Attempt.Failure> failures = new ArrayDeque<>();
    private final Queue<Fenced> fenced = new ConcurrentLinkedQueue<>();
    /** To participants with which there is no session. */
    private final Map<String, PersistentLink> couriers = new HashMap<>();
    /** Those of the attempt's sessions that are not lost. */
    private final Map<String, SourceSession> sessions = new HashMap<>();

    private final Set<String> reached = new HashSet<>();
    private MigrationPlan plan;
    private volatile Attempt attempt;
    private int number;
    private boolean moving;
    private boolean suspended;
    private boolean pauseTold;
    private boolean calledOff;
    private boolean lateTold;
    private long openSinceNs;
    private long nextSayNs;
    private boolean defective;
    /** The processes that the job itself has stopped, by the journal. */
    private List<PlannedRank> stopped = List.of();

    private MigrationReport ended;
    private String lastWords = "a target is not reached; the originals are held or gone, its ranks are held there";

    private SourceMigration(
            Attempt.Subject subject,
            JobNotes job,
            MigrationPlan plan,
            NextAttempts nextAttempts,
            Cancellation cancellation,
            List<TransactionRecord> takenUp) {
        this.subject = subject;
        this.id = subject.migrationId();
        this.service = subject.service();
        this.clock = service.clock();
        this.record = subject.record();
        this.originals = subject.originals();
        this.job = job;
        this.plan = plan;
        this.nextAttempts = nextAttempts;
        this.cancellation = cancellation;
        this.takenUp = takenUp;
        this.hooks = new HookRunner(id, job, service, !takenUp.isEmpty());
        SourceSettings settings = service.settings();
        TransactionTimes times = TransactionTimes.usual(
                settings.silenceLimit().toNanos(),
                settings.transaction().pauseBudget().toNanos());
        this.coordinator = new Coordinator(id, times, this);
        this.operators = new OperatorView(id, this, clock);
        this.backlog = new Backlog(HEARD_BYTES, settings.silenceLimit().dividedBy(2));
        cancellation.tell(reason -> look());
        // Asked while this migration's thread may be busy: what it has found last.
        record.waitsFor(() -> checkpointsWaitedFor().or(() -> operators.open().map(OpenMigration::waitsFor)));
    }

    /** A new one; throws if it cannot begin, and nothing is done to the job then. */
    static SourceMigration ordered(
            SourceContext service, MigrationRecord record, MigrationOrder order, Cancellation cancellation)
            throws IOException, CheckpointException, InterruptedException {
        Job job = order.job();
        if (job.ranks().isEmpty()) {
            throw new CheckpointException(
                    "job " + job.name() + " has no rank on this node, so there is nothing to move");
        }
        int ranks = job.notes().ranks().size() + job.notes().others().size();
        if (ranks > MessageFields.MAX_LIST_ENTRIES) {
            throw new CheckpointException(
                    "job " + job.name() + " has " + ranks + " ranks, and a target is told where at" + " most "
                            + MessageFields.MAX_LIST_ENTRIES + " are. Remedy: move it as several jobs");
        }
        Preparation preparation = new Preparation(() -> cancellation.reason().isPresent());
        OriginalRanks originals = OriginalRanks.of(record.migrationId(), service.processes(), service.pods(), job);
        originals.requireReachable(job);
        if (job.notes().hooks().suspend().isEmpty()) {
            originals.requireMovable(job, service.settings(), preparation);
        }
        PageChoice pages = PageChoice.of(
                job,
                order.keep().directory().isPresent(),
                service.settings().files().carry(),
                new JobProbe(service.processes(), preparation)
                        .facts(job.checkpointer().name(), originals.roots()),
                originals.trees(),
                preparation);
        List<InetSocketAddress> targets = order.targets();
        List<InetSocketAddress> spares = List.of();
        if (targets.isEmpty()) {
            List<InetSocketAddress> candidates = service.settings().spares().candidates();
            targets = candidates.subList(0, 1);
            spares = candidates.subList(1, candidates.size());
        }
        Keeping keeping = new Keeping(
                order.keep(),
                new Keeping.Subject(
                        record.migrationId(), job.name(), job.checkpointer().name(), job.user()),
                service.settings().workDirectory(),
                service.settings().authenticator());
        record.keeps(keeping);
        MigrationSecret secret = MigrationSecret.random();
        // On the disk with the first attempt, before a target is told.
        service.journal().append(new TransactionRecord.Secret(record.migrationId(), 0, secret));
        return new SourceMigration(
                new Attempt.Subject(record.migrationId(), secret, service, job, pages, record, originals, keeping),
                job.notes(),
                MigrationPlan.spread(job.notes().ranks(), targets),
                new NextAttempts(
                        service.settings().transaction(), job.checkpointer().checkpointsHeldRanks(), spares),
                cancellation,
                List.of());
    }

    /**
     * One that an earlier run of the service has left open. It makes no further attempt.
     *
     * @param records what the journal has of it
     * @param jobs what is known of a job by its name and ranks
     */
    static SourceMigration takenUp(
            SourceContext service,
            MigrationRecord record,
            List<TransactionRecord> records,
            BiFunction<String, List<Integer>, JobNotes> jobs) {
        String id = record.migrationId();
        String job = "";
        int attempt = 0;
        List<String> participants = List.of();
        Map<Integer, PlannedRank> ranks = new TreeMap<>();
        for (TransactionRecord one : records) {
            if (one instanceof TransactionRecord.Asked asked) {
                job = asked.job();
            } else if (one instanceof TransactionRecord.Begun begun) {
                attempt = begun.attempt();
                participants = begun.participants();
                begun.originals().forEach(rank -> ranks.put(rank.rank(), rank));
            } else if (one instanceof TransactionRecord.Sealed sealed) {
                sealed.held().forEach(rank -> ranks.put(rank.rank(), rank));
            }
        }
        List<PlannedRank> held = List.copyOf(ranks.values());
        OriginalRanks originals = OriginalRanks.recorded(
                id, service.processes(), service.pods(), service.settings().workDirectory(), held, records);
        SourceMigration migration = new SourceMigration(
                new Attempt.Subject(
                        id, TransactionRecord.Secret.of(records), service, null, null, record, originals, null),
                jobs.apply(job, List.copyOf(ranks.keySet())),
                MigrationPlan.recorded(participants, held),
                new NextAttempts(service.settings().transaction(), false, List.of()),
                new Cancellation(),
                records);
        migration.number = attempt;
        migration.operators.takenUp();
        return migration;
    }

    // ---- any thread ----------------------------------------------------------------------------------------------

    String id() {
        return id;
    }

    /** Returns the participants of the first attempt, or of the last one that the journal knows. */
    List<String> participants() {
        return plan.addresses();
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
    boolean take(OperatorInbox.Call call) {
        boolean taken = operators.take(call);
        look();
        return taken;
    }

    /** Returns its state of a moment ago, if an operator should know of it; one that waits looks again. Any thread. */
    Optional<OpenMigration> open() {
        look();
        return operators.open();
    }

    /** Its thread looks at what does not come as a message; it does so anyway where a message waits. Any thread. */
    private void look() {
        if (heard.isEmpty()) {
            heard.add(LOOK);
        }
    }

    /**
     * A target says something, or is lost. Any thread; throws if it says more than is dealt with. How far the transfer
     * is comes again and again while this migration's thread may be busy: of each target the last word of that counts.
     */
    private void queue(Attempt.Heard next) throws ProtocolException {
        if (isProgress(next)) {
            if (progress.put(next.participant(), next) == null) {
                heard.add(next);
            }
            return;
        }
        if (next.event() instanceof SessionEvent.Said said) {
            backlog.take(said.lengthBytes());
        }
        heard.add(next);
    }

    private static boolean isProgress(Attempt.Heard next) {
        return next.event() instanceof SessionEvent.Said said && said.message() instanceof DataMessage.Progress;
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
        return checkpointsWaitedFor().isPresent();
    }

    /** Returns true if its thread may end within this time. */
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

    /** Returns true if the agents of its sessions do their work. Any thread; blocks it. */
    boolean responds(long limitNs) {
        Attempt current = attempt;
        return current == null || current.responds(limitNs);
    }

    /** For what a rollback waits here, before anybody is told of it; empty while it does not. Any thread. */
    private Optional<String> checkpointsWaitedFor() {
        Attempt current = attempt;
        return current == null ? Optional.empty() : current.waitsFor();
    }

    // ---- the migration's thread ----------------------------------------------------------------------------------

    /**
     * Runs it to the end of the transaction.
     *
     * @param over told when nothing of it is left, before the report is given
     */
    void run(Runnable over) {
        try (LogContext.Scope about = LogContext.migration(id)) {
            runWhole(over);
        }
    }

    private void runWhole(Runnable over) {
        Throwable defect = null;
        try {
            begin();
            while (!isOver()) {
                step();
            }
        } catch (RuntimeException | Error e) {
            LOG.error("migration {}: a defect of this service; the journal says how far it came", id, e);
            defect = e;
        }
        try {
            endCouriers();
            closeAttempt();
            if (defect == null) {
                originals.endAbandonedCheckpoints();
            }
            WorkDirectories.removeOrWarn(hooks.workDirectory());
        } catch (RuntimeException e) {
            LOG.error("migration {}: not everything of it could be taken down", id, e);
            defect = defect == null ? e : defect;
        }
        KeptImageReport copy =
                subject.keeping() == null ? null : subject.keeping().report();
        if (copy != null) {
            service.note(new TransactionRecord.CopyEnded(id, 0, copy.kept(), copy.sentence()));
        }
        record.over();
        wipePool();
        over.run();
        operators.close();
        if (defect == null) {
            report.complete(ended);
        } else {
            report.completeExceptionally(defect);
        }
    }

    /** Before the next job's session, whose target could read the whole pool by RDMA; after this job's decision. */
    private void wipePool() {
        int kept = service.pool().wipe();
        if (kept > 0) {
            LOG.error("migration {}: {} chunks of the pool were not given back and keep its bytes", id, kept);
        }
    }

    private void begin() {
        if (takenUp.isEmpty()) {
            List<PlannedRank> planned = plan.legs().stream()
                    .flatMap(leg -> originals.planned(leg).stream())
                    .toList();
            coordinator.start(plan.addresses(), planned, clock.getAsLong());
        } else {
            // What an earlier run was keeping is not whole, and is removed already.
            coordinator.recover(takenUp, clock.getAsLong());
        }
    }

    @Override
    public boolean isOver() {
        return coordinator.state().isOver() && coordinator.isSettled();
    }

    private void step() {
        try {
            Attempt.Heard next = heard.poll(moving ? POLL.toMillis() : quietMs(), TimeUnit.MILLISECONDS);
            if (next != null) {
                hear(next);
            }
            if (moving) {
                lookAtCheckpoints();
            }
        } catch (IOException | CheckpointException e) {
            // What was broken off since the migration is called off is no failure of its own.
            if (cancellation.reason().isEmpty()) {
                failures.add(new Attempt.Failure(String.valueOf(e.getMessage()), ""));
            }
        } catch (InterruptedException e) {
            // The service ends: what is not decided is rolled back; what is decided is carried on by the next one.
            cancellation.cancel("the source's service ends");
        } catch (RuntimeException e) {
            defect("what was heard or has ended cannot be dealt with", e);
        }
        try {
            goOn();
        } catch (RuntimeException e) {
            defect("what is due cannot be done", e);
        }
    }

    /**
     * Returns the time to sleep while nothing is moved: until something is due, unless it hears of something before.
     */
    private long quietMs() {
        if (!failures.isEmpty()) {
            return 0;
        }
        if (operators.isAsked()) {
            return QUIET_POLL_MS;
        }
        long dueNs = coordinator.nextDeadlineNs() - clock.getAsLong();
        if (openSinceNs != 0 && !report.isDone() && !lateTold) {
            dueNs = Math.min(dueNs, openSinceNs + decisionDeadlineNs() - System.nanoTime());
        }
        return QuietPoll.clampMs(dueNs, QUIET_POLL_MS, service.settings().silenceLimit());
    }

    private long decisionDeadlineNs() {
        return service.settings().decisionDeadline().toNanos();
    }

    /** Hears something, unless it is of an older attempt. */
    private void hear(Attempt.Heard first) {
        Attempt.Heard next = first;
        if (isProgress(first)) {
            next = progress.remove(first.participant());
        } else if (first.event() instanceof SessionEvent.Said said) {
            backlog.give(backlog.chargeOf(said.lengthBytes()));
        }
        if (next.attempt() == number) {
            try (LogContext.Scope about = LogContext.peer(next.participant())) {
                hear(next.participant(), next.event());
            }
        }
    }

    /** Does what has come to it otherwise than by a message, and what is due by now. */
    private void goOn() {
        Attempt.Failure failure = failures.poll();
        if (failure != null) {
            fail(failure);
        }
        Fenced proof = fenced.poll();
        if (proof != null) {
            coordinator.fenceEnded(proof.participant(), proof.off(), clock.getAsLong());
        }
        if (!calledOff && cancellation.reason().isPresent()) {
            calledOff = true;
            coordinator.callOff(cancellation.reason().get(), clock.getAsLong());
        }
        if (!pauseTold && record.pausedNs() > 0) {
            pauseTold = true;
            coordinator.suspended(clock.getAsLong() - record.pausedNs());
        }
        operators.work();
        coordinator.tick(clock.getAsLong());
        follow();
    }

    /**
     * A failure here may follow from that of a target, which was heard meanwhile. Then that is the reason, and another
     * target may take the place.
     */
    private void fail(Attempt.Failure failure) {
        int failed = number;
        while (number == failed && !heard.isEmpty()) {
            hear(heard.remove());
        }
        if (number == failed) {
            fail(failure.reason(), failure.participant());
        }
    }

    /**
     * A defect of this service ends the migration as any other failure does: rolled back while that is possible. Its
     * thread goes on: what is decided has to be done.
     */
    private void defect(String what, RuntimeException e) {
        long nowNs = System.nanoTime();
        if (!defective || nowNs - nextSayNs >= 0) {
            nextSayNs = nowNs + SAY_NS;
            LOG.error("migration {}: a defect of this service; please report it: {}", id, what, e);
        }
        defective = true;
        failures.add(new Attempt.Failure("a defect of this service: " + what + ": " + e, ""));
    }

    /** Takes notice of checkpoints that have ended, and of writes that have failed. */
    private void lookAtCheckpoints() throws IOException, CheckpointException, InterruptedException {
        List<Integer> complete = new ArrayList<>();
        attempt.work(complete::add);
        if (!complete.isEmpty()) {
            noteStopped();
            if (attempt.written()) {
                freeze();
            }
        }
        for (int place : complete) {
            coordinator.on(
                    new CoordinatorEvent.ImageComplete(
                            participant(place), originals.planned(plan.legs().get(place))),
                    clock.getAsLong());
        }
        attempt.spent().ifPresent(failures::add);
        attempt.tooSlow().ifPresent(why -> {
            record.slow();
            failures.add(new Attempt.Failure("job " + job.name() + ": " + why, ""));
        });
    }

    /** Writes down which processes the job itself has stopped, so that a restarted service leaves them so. */
    private void noteStopped() throws IOException {
        List<PlannedRank> now = originals.stopped(plan);
        if (!now.equals(stopped)) {
            service.journal().appendSynced(new TransactionRecord.Stopped(id, number, now));
            stopped = now;
        }
    }

    /** No checkpointer works on the ranks any more. What is about to be frozen is written down before. */
    private void freeze() throws IOException {
        FrozenCgroups cgroups = originals.cgroups();
        if (!cgroups.paths().isEmpty()) {
            service.journal().append(new TransactionRecord.Frozen(id, number, cgroups.paths()));
            originals.freeze(cgroups);
            LOG.info("migration {}: the cgroups {} are frozen while their ranks are held", id, cgroups.paths());
        }
    }

    private String participant(int place) {
        return plan.legs().get(place).address();
    }

    private int placeOf(String participant) {
        return plan.addresses().indexOf(participant);
    }

    private void hear(String participant, SessionEvent event) {
        if (event instanceof SessionEvent.LinkLost lost) {
            sessions.remove(participant);
            reached.remove(participant);
            coordinator.linkDown(participant, clock.getAsLong());
            fail(participant + ": " + lost.reason(), participant);
            return;
        }
        if (reached.add(participant)) {
            coordinator.linkUp(participant, clock.getAsLong());
        }
        Message message = ((SessionEvent.Said) event).message();
        if (message instanceof DataMessage.Failed failed) {
            if (failing.add(participant)) {
                fail("the target fails: " + failed.reason(), participant);
            }
        } else {
            note(participant, message);
            if (message instanceof ControlMessage said) {
                coordinator.heard(participant, number, said, this::decides, clock.getAsLong());
            }
        }
    }

    /** Notes what a message says of the transfer. */
    private void note(String participant, Message message) {
        if (message instanceof DataMessage.Progress progress) {
            record.progress(placeOf(participant), progress);
        } else if (message instanceof ControlMessage.Restored restored) {
            try (LogContext.Scope about = LogContext.rank(restored.rank())) {
                LOG.info("migration {}: rank {} is restored and held on {}", id, restored.rank(), participant);
            }
            record.restored(restored);
        } else if (message instanceof ControlMessage.Prepared prepared) {
            record.prepared(placeOf(participant), prepared.report());
        }
    }

    /** The last vote comes: the decision may follow, and nobody can call it off any more. */
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
        coordinator.fail(reason, participant, clock.getAsLong());
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
        open &= !waitsForCheckpoints();
        if (!open) {
            openSinceNs = 0;
        } else if (openSinceNs == 0) {
            openSinceNs = System.nanoTime();
        }
        boolean longOpen = open && System.nanoTime() - openSinceNs > decisionDeadlineNs();
        boolean isSettled = coordinator.isSettledByReached();
        if ((phase == CoordinatorState.Phase.BROKEN || (longOpen && !isSettled)) && !report.isDone()) {
            LOG.error("migration {} is IN DOUBT: {}", id, lastWords);
            report.complete(record.report(MigrationReport.Outcome.IN_DOUBT, lastWords));
        } else if (longOpen && isSettled && !lateTold) {
            lateTold = true;
            LOG.warn(
                    "migration {} was decided more than {} s ago, and is not over: its targets can be reached, and"
                            + " have not done yet what it means for them",
                    id,
                    service.settings().decisionDeadline().toSeconds());
        }
    }

    private static Step stepOf(CoordinatorState.Phase phase) {
        return switch (phase) {
            case CONFIRMING, COMMITTING -> Step.COMMIT;
            case ROLLING_BACK -> Step.ROLL_BACK;
            default -> null;
        };
    }

    // ---- what operators ask and say --------------------------------------------------------------------------

    @Override
    public String phase() {
        return coordinator.state().phase().name();
    }

    @Override
    public long waitsSinceNs() {
        return coordinator.waitsSinceNs();
    }

    @Override
    public List<Integer> heldRanks() {
        return originals.heldRanks();
    }

    @Override
    public OperatorDecision.Verdict ruling(OperatorDecision word) {
        return coordinator.ruling(word, service.settings().transaction().fence().isPresent());
    }

    @Override
    public void resolve(OperatorDecision word) {
        coordinator.resolve(word, clock.getAsLong());
    }

    @Override
    public String ending() {
        return coordinator.state().phase() == CoordinatorState.Phase.COMMITTED
                ? "Migration " + id + " has committed: nothing of it is left here."
                : "Migration " + id + " is rolled back: the originals that are left go on here.";
    }

    @Override
    public String waitsFor() {
        return checkpointsWaitedFor().orElseGet(coordinator::waitsFor);
    }

    @Override
    public boolean seeksProof() {
        return false;
    }

    // ---- the coordinator decides -------------------------------------------------------------------------------

    @Override
    public Execution carryOut(Effect effect) throws IOException {
        if (effect instanceof Effect.Persist persist) {
            service.journal().persist(persist.record());
        } else if (effect instanceof Effect.Send send) {
            send(send.participant(), send.message());
        } else if (effect instanceof Effect.StartAttempt start) {
            startAttempt(start.attempt(), start.participants());
        } else if (effect instanceof Effect.StopAttempt stop) {
            return stopAttempt(stop.attempt(), stop.reason()) ? Execution.DONE : Execution.FAILED;
        } else if (effect instanceof Effect.Seal seal) {
            seal(seal.participant());
        } else if (effect instanceof Effect.Judge judge) {
            Originals proved = originals();
            coordinator.judged(
                    judge, proved, coordinator.mayTryAgain(judge) ? nextAttempt(judge.participant()) : List.of());
        } else if (effect instanceof Effect.ProveOriginals) {
            Originals proved = originals();
            coordinator.proved(proved, proved == Originals.HELD ? "" : whyNotHeld());
        } else if (effect instanceof Effect.Recover recover) {
            coordinator.recovered(recover, originals());
        } else if (effect instanceof Effect.EndOriginals) {
            return endOriginals() ? Execution.DONE : Execution.FAILED;
        } else if (effect instanceof Effect.ContinueOriginals) {
            return continueOriginals() ? Execution.DONE : Execution.FAILED;
        } else if (effect instanceof Effect.Resume) {
            resume();
        } else if (effect instanceof Effect.Reconnect) {
            reconnect();
        } else if (effect instanceof Effect.FenceParticipant fence) {
            fence(fence.participant());
        } else if (effect instanceof Effect.Say text) {
            say(text.text());
        } else if (effect instanceof Effect.Finished finished) {
            finished(finished.outcome(), finished.reason());
        } else {
            throw new IllegalStateException("not a coordinator's: " + effect);
        }
        return Execution.DONE;
    }

    /** Over the attempt's session as long as that lives, else by a courier. */
    private void send(String participant, ControlMessage message) {
        SourceSession session = sessions.get(participant);
        if (session != null) {
            try {
                session.send(message);
                return;
            } catch (IllegalArgumentException e) {
                defect("a message cannot be sent", e);
                return;
            } catch (IOException e) {
                LOG.debug("{} is not reached by its session: {}", participant, e.toString());
                sessions.remove(participant);
            }
        }
        couriers.computeIfAbsent(participant, this::courier).say(message);
    }

    private PersistentLink courier(String participant) {
        int about = number;
        // The courier's threads have it from here.
        try (LogContext.Scope peer = LogContext.peer(participant)) {
            return new PersistentLink(
                    service.connector(HostPort.ofParticipant(participant).lookUp()),
                    participant,
                    about,
                    service.settings().silenceLimit(),
                    new ControlMessage.Peer(id, "", subject.secret()),
                    (message, lengthBytes) ->
                            queue(new Attempt.Heard(about, participant, new SessionEvent.Said(message, lengthBytes))));
        }
    }

    private void endCouriers() {
        couriers.values().forEach(PersistentLink::close);
        couriers.clear();
    }

    private List<String> nextAttempt(String participant) {
        try {
            return nextParticipants(participant);
        } catch (RuntimeException e) {
            defect("another attempt cannot be planned", e);
            return List.of();
        }
    }

    private List<String> nextParticipants(String participant) {
        int place = placeOf(participant);
        boolean another = originals.whyNotAlive() == null
                && nextAttempts.mayFollow(place, record.pausedNs(), originals.anyHeld());
        Optional<MigrationPlan> next = another ? nextAttempts.plan(plan, place) : Optional.empty();
        next.ifPresent(found -> LOG.info("migration {}: {} take part next", id, found.addresses()));
        return next.map(MigrationPlan::addresses).orElse(List.of());
    }

    private void startAttempt(int attemptNumber, List<String> participants) {
        try {
            begin(attemptNumber, participants);
        } catch (IOException | CheckpointException e) {
            failures.add(new Attempt.Failure(String.valueOf(e.getMessage()), ""));
        } catch (InterruptedException e) {
            failures.add(new Attempt.Failure("the source's service ends", ""));
            Thread.currentThread().interrupt();
        } catch (RuntimeException e) {
            defect("the attempt cannot be begun", e);
        }
    }

    private void begin(int attemptNumber, List<String> participants)
            throws IOException, CheckpointException, InterruptedException {
        if (!takenUp.isEmpty()) {
            throw new IllegalStateException("a migration that was taken up again tries no further attempt");
        }
        closeAttempt();
        // Held ranks may be checkpointed anew as they are.
        originals.thaw();
        if (originals.anyHeld() && !nextAttempts.checkpointsHeldRanks()) {
            // Held by a checkpoint that ended well in an attempt that had failed; nobody has a copy any more.
            originals.release();
            record.resumed();
        }
        number = attemptNumber;
        plan = nextAttempts.taken(participants).orElse(plan);
        record.newAttempt();
        endCouriers();
        sessions.clear();
        // Those of the attempt before, which has failed already.
        failures.clear();
        failing.clear();
        attempt = new Attempt(subject, number, plan);
        record.step(Step.CONNECT);
        Attempt.NotTaken not = attempt.begin(cancellation, this::queue);
        if (not != null) {
            nextAttempts.notTaken(not);
            failures.add(new Attempt.Failure(not.reason(), participant(not.place())));
            return;
        }
        for (int place = 0; place < plan.legs().size(); place++) {
            sessions.put(participant(place), attempt.session(place));
        }
        if (!record.pages().isEmpty()) {
            LOG.info("migration {}: the job's memory travels {}", id, record.pages());
            service.note(new TransactionRecord.PagesChosen(id, number, record.pages()));
        }
        originals.lookForStopped();
        noteStopped();
        suspend();
        if (originals.whyNotAlive() != null && untouched()) {
            throw new CheckpointException(
                    originals.whyNotAlive() + ": they have ended by themselves before anything was"
                            + " stopped. Nothing is moved, and what is left of the job goes on");
        }
        if (suspended && !originals.anyHeld()) {
            // The hook may have taken away what stands in the way, so it is asked only now.
            originals.requireReachable(subject.job());
            originals.requireMovable(subject.job(), service.settings(), new Preparation(() -> cancellation
                    .reason()
                    .isPresent()));
        }
        record.step(Step.CHECKPOINT);
        moving = true;
        nextAttempts.begun();
        Map<Integer, List<ProcessIdentity>> trees = originals.trees();
        record.expects(OriginalRanks.imageBytes(trees));
        attempt.startCheckpoints(trees, originals.detach(subject.job(), subject.secret()));
    }

    private void suspend() throws CheckpointException {
        if (!suspended && job.hooks().suspend().isPresent()) {
            record.step(Step.SUSPEND);
            record.paused();
            suspended = true;
            hooks.run(job.hooks().suspend());
        }
    }

    private void seal(String participant) {
        try {
            attempt.seal(placeOf(participant));
        } catch (IOException e) {
            failures.add(new Attempt.Failure(String.valueOf(e.getMessage()), ""));
        } catch (InterruptedException e) {
            failures.add(new Attempt.Failure("the source's service ends", ""));
            Thread.currentThread().interrupt();
        } catch (RuntimeException e) {
            defect("the images cannot be ended", e);
        }
    }

    private boolean stopAttempt(int attemptNumber, String reason) {
        moving = false;
        return attempt == null || attempt.number() != attemptNumber || attempt.giveUp(reason);
    }

    /** Returns true while nothing was done to the originals: those that are gone by now have ended by themselves. */
    private boolean untouched() {
        return takenUp.isEmpty() && nextAttempts.noneBegun();
    }

    private Originals originals() {
        if (originals.whyNotAlive() != null) {
            // What has ended by itself leaves nothing to decide: no image was begun, so no copy can be made.
            return untouched() ? Originals.ALIVE : Originals.DEAD;
        }
        return originals.whyNotHeld() == null ? Originals.HELD : Originals.ALIVE;
    }

    private String whyNotHeld() {
        String gone = originals.whyNotAlive();
        return String.valueOf(gone == null ? originals.whyNotHeld() : gone);
    }

    private boolean endOriginals() {
        moving = false;
        if (!endAbandoned()) {
            return false;
        }
        String left = originals.end();
        if (left != null) {
            LOG.error("migration {}: an original could not be ended, so no copy is set going: {}", id, left);
        }
        return left == null;
    }

    /** Sees ended what an earlier run of the service has started for the job; whether nothing is left. */
    private boolean endAbandoned() {
        return hooks.endAbandoned() && originals.endAbandonedCheckpoints();
    }

    private boolean continueOriginals() {
        if (!endAbandoned()) {
            // A command that still works on an original would stop it again, or leave it broken.
            return false;
        }
        if (!originals.release()) {
            return false;
        }
        record.resumed();
        return true;
    }

    private void resume() {
        if (job.hooks().resume().isPresent() && (suspended || attempt == null)) {
            hooks.endAbandoned();
            try {
                hooks.run(job.hooks().resume());
            } catch (CheckpointException e) {
                LOG.error("migration {}: {}: the job may not communicate again by itself", id, e.getMessage());
            } catch (RuntimeException e) {
                defect("the job may not communicate again by itself", e);
            }
        }
    }

    private void reconnect() {
        record.step(Step.RECONNECT);
        hooks.endAbandoned();
        try {
            hooks.reconnect(plan.map(job.others()));
        } catch (IOException | CheckpointException e) {
            LOG.error("migration {}: {}: the job may not communicate again by itself", id, e.getMessage());
        } catch (RuntimeException e) {
            defect("the job may not communicate again by itself", e);
        }
        record.resumed();
    }

    /** Asks the site's command, on a thread of its own: it may take a minute. */
    private void fence(String participant) {
        Optional<Fence> fence = service.settings().transaction().fence();
        String node = HostPort.ofParticipant(participant).host();
        fence.ifPresent(command -> command.start(node, hooks.workDirectory(), service.programs(), () -> true, off -> {
            fenced.add(new Fenced(participant, off));
            look();
        }));
        if (fence.isEmpty()) {
            coordinator.notFenced(participant);
        }
    }

    private void say(String text) {
        lastWords = text;
        LOG.error("migration {}: {}", id, text);
    }

    private void finished(Outcome outcome, String reason) {
        moving = false;
        MigrationReport.Outcome how = outcome == Outcome.COMMITTED
                ? MigrationReport.Outcome.COMMITTED
                : nextAttempts.refusedByAll() ? MigrationReport.Outcome.REFUSED : MigrationReport.Outcome.ROLLED_BACK;
        try {
            closeAttempt();
            record.step(Step.DONE);
            record.awaitCopy();
        } catch (RuntimeException e) {
            LOG.error("migration {}: a defect of this service; not everything of it could be taken down", id, e);
        }
        ended = record.report(how, nextAttempts.reason(reason));
    }

    private void closeAttempt() {
        if (attempt != null) {
            attempt.close();
            attempt = null;
        }
    }
}
