package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.migration.OperatorView;
import io.ppmr.migration.QuietPoll;
import io.ppmr.migration.ReconnectingLink;
import io.ppmr.os.BootClock;
import io.ppmr.os.HostPort;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.target.session.Transfer;
import io.ppmr.transaction.EffectExecutor;
import io.ppmr.transaction.Participant;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorInbox;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.ParticipantEvent;
import io.ppmr.transaction.rules.ParticipantRules;
import io.ppmr.transaction.rules.ParticipantState;
import io.ppmr.transaction.rules.ParticipantState.Phase;
import io.ppmr.transaction.rules.TransactionTimes;
import io.ppmr.transport.Backlog;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One migration at the target, new or recovered from the journal: feeds what happens to the {@link Participant} and
 * carries out what follows. Restored ranks are held until it is decided.
 *
 * <p>Its thread, which owns everything here, is that of the control connection that began it, or one of its own.
 */
final class TargetMigration implements EffectExecutor, OperatorView.ViewedMigration {
    private static final Logger LOG = LoggerFactory.getLogger(TargetMigration.class);
    private static final Duration CONNECT_DEADLINE = Duration.ofSeconds(5);
    private static final long POLL_MS = 5;
    private static final long QUIET_POLL_MS = 200;
    private static final long SAY_NS = TimeUnit.SECONDS.toNanos(10);
    /** Covers TCP's retransmission back-off after a link outage of a few seconds. */
    private static final long LAST_WORDS_NS = TimeUnit.SECONDS.toNanos(15);

    private final String id;
    private final TargetContext service;
    private final LongSupplier clock;
    private final TargetSettings settings;
    private final Participant participant;
    private final List<TransactionRecord> records;
    private final OperatorView operators;
    private final JobCommands jobCommands;
    /** The messages and the work for its thread, in the order in which they came. */
    private final BlockingQueue<Runnable> inbox = new LinkedBlockingQueue<>();

    private final Backlog backlog;
    /** To the migration's other targets, about one of its attempts each: by the attempt's number and the address. */
    private final Map<String, ReconnectingLink> couriers = new HashMap<>();
    /** On which connection another target has spoken last. */
    private final Map<String, ControlLink> askers = new HashMap<>();

    private final MigrationSecret secret;

    private Runnable conversationOver = () -> LOG.debug("all is said");
    private RestoredRanks copies;
    private Restoration restoration;
    private ControlLink link;
    private ControlLink dropped;
    private ControlLink failedSource;
    private String source = "";
    private String self = "";
    private int attempt;
    private boolean restoring;
    private boolean defective;
    private long nextSayNs;
    private volatile boolean voted;
    private volatile boolean gone;
    private volatile FinalOutcome outcome;

    /**
     * A migration as the journal knows it; one that it does not know has nothing here.
     *
     * @param secret the migration's, NONE where it is not known
     * @param backlog of the messages that its thread has not dealt with yet
     * @param records what the journal has of it
     */
    TargetMigration(
            String id,
            MigrationSecret secret,
            TargetContext service,
            Backlog backlog,
            List<TransactionRecord> records) {
        this.id = id;
        this.secret = secret;
        this.service = service;
        this.backlog = backlog;
        this.clock = service.clock();
        this.settings = service.settings();
        this.records = List.copyOf(records);
        this.copies = RestoredRanks.recorded(id, records);
        this.voted = !records.isEmpty();
        this.jobCommands = new JobCommands(service, records);
        long silenceNs = settings.node().silenceLimit().toNanos();
        TransactionTimes times = TransactionTimes.usual(silenceNs, 0);
        this.participant = new Participant(
                id,
                settings.fence()
                        .map(fence -> times.withFence(
                                fence.delay().toNanos(), fence.deadline().toNanos()))
                        .orElse(times),
                this);
        this.operators = new OperatorView(id, this, clock);
    }

    /** Makes the restoration of the ranks of an attempt that begins. */
    Restoration restoration(
            ControlMessage.Begin begin,
            Map<Integer, PodFacts> pods,
            Checkpointer checkpointer,
            Transfer transfer,
            String directory) {
        copies = new RestoredRanks(id);
        return new Restoration(begin, pods, checkpointer, transfer, directory, copies, service);
    }

    /** The name of this attempt for the keeper of the pods. */
    private String move() {
        return id + "." + attempt;
    }

    String id() {
        return id;
    }

    /** Returns true if only a decision ends it now. Any thread. */
    boolean isPrepared() {
        return voted;
    }

    /** Returns its outcome; empty while it has not ended. Any thread. */
    Optional<FinalOutcome> outcome() {
        return Optional.ofNullable(outcome);
    }

    /** Takes an operator's word. Any thread; false once its thread has ended. */
    boolean offer(OperatorInbox.PendingDecision call) {
        boolean taken = operators.take(call);
        checkRestarts();
        return taken;
    }

    /** Returns its state of a moment ago, if an operator should know of it; one that waits looks again. Any thread. */
    Optional<OpenMigration> open() {
        checkRestarts();
        return operators.open();
    }

    /** Its thread looks at what does not come by its inbox. */
    private void checkRestarts() {
        if (!inbox.isEmpty()) {
            return;
        }
        inbox.add(() -> LOG.trace("migration {}: a look", id));
    }

    /** The source says something on one of its connections. Any thread; throws if it says more than is dealt with. */
    void onSourceMessage(SessionEvent.MessageReceived said, ControlLink from) throws ProtocolException {
        onMessage(said.lengthBytes(), () -> fromSource(said.message(), from));
    }

    private void onMessage(int lengthBytes, Runnable message) throws ProtocolException {
        int charge = backlog.reserve(lengthBytes);
        inbox.add(() -> {
            backlog.release(charge);
            message.run();
        });
    }

    /** A connection of the source is gone. Any thread. */
    void sourceLost(String reason, ControlLink which) {
        inbox.add(() -> lost(reason, which));
    }

    /** Returns whether who shows this secret may speak of the migration. Any thread. */
    boolean believes(MigrationSecret shown) {
        return shown.matches(secret);
    }

    /**
     * Another target of the migration says something, on a connection that it has opened. Any thread; throws if it says
     * more than is dealt with.
     */
    void onPeerMessage(String from, SessionEvent.MessageReceived message, ControlLink on) throws ProtocolException {
        if (message.message() instanceof ControlMessage.OfTransaction said) {
            onMessage(message.lengthBytes(), () -> {
                askers.put(from, on);
                participant.heardPeer(from, on.attempt(), said, clock.getAsLong());
            });
        }
    }

    private void onPeerReply(String from, int itsAttempt, Message message, int lengthBytes) throws ProtocolException {
        if (message instanceof ControlMessage.OfTransaction said) {
            onMessage(lengthBytes, () -> participant.heardPeer(from, itsAttempt, said, clock.getAsLong()));
        }
    }

    /** The transfer, or what the attempt needs besides, has failed. Any thread. */
    void failed(String reason) {
        inbox.add(() -> fail(reason));
    }

    /** Fails it, unless it is prepared. Any thread. */
    void giveUp(String reason) {
        if (!voted) {
            failed(reason);
        }
    }

    /** Takes part in an attempt, from the source's question to the end. */
    void begin(ControlMessage.Begin begin, Restoration toRestore, ControlLink from, Runnable over)
            throws InterruptedException {
        participant.recover(records, clock.getAsLong(), BootClock.suspendedNs());
        conversationOver = over;
        voted = false;
        restoration = toRestore;
        link = from;
        attempt = from.attempt();
        source = hostOf(from.peer());
        self = begin.participants().get(begin.participantIndex());
        jobCommands.begun(begin, attempt);
        participant.heard(attempt, begin, clock.getAsLong());
        runLoop();
    }

    /** Recovers what the journal has of the migration. */
    void run() throws InterruptedException {
        // What is decided already is carried out while it recovers, on this attempt's copies and its pod.
        ParticipantState known = ParticipantRules.recover(id, records).state();
        attempt = known.attempt();
        self = known.self();
        participant.recover(records, clock.getAsLong(), BootClock.suspendedNs());
        if (!participant.state().done()) {
            operators.takenUp();
        }
        runLoop();
    }

    /** Returns the number of its last attempt, 0 if there was none. Its own thread. */
    int attempt() {
        return attempt;
    }

    /** Returns true if its thread has ended. Any thread. */
    boolean isGone() {
        return gone;
    }

    /** Goes on until nothing is left to do and the last word has been heard. */
    private void runLoop() throws InterruptedException {
        try {
            do {
                step(QuietPoll.clampMs(
                        operators.isAsked() ? 0 : participant.nextDeadlineNs() - clock.getAsLong(),
                        QUIET_POLL_MS,
                        settings.node().silenceLimit()));
            } while (!isOver());
            conversationOver.run();
            long deadlineNs = System.nanoTime() + LAST_WORDS_NS;
            while (link != null && System.nanoTime() - deadlineNs < 0) {
                step(QUIET_POLL_MS);
            }
        } finally {
            gone = true;
            operators.close();
            couriers.values().forEach(ReconnectingLink::close);
        }
    }

    @Override
    public boolean isOver() {
        Phase phase = participant.state().phase();
        return participant.isSettled()
                && participant.state().done()
                && (phase == Phase.COMMITTED || phase == Phase.ROLLED_BACK || phase == Phase.NOTHING);
    }

    /** @param quietMs how long it may sleep while nothing is restored, unless it hears of something before */
    private void step(long quietMs) throws InterruptedException {
        Runnable heard = inbox.poll(restoring ? POLL_MS : quietMs, TimeUnit.MILLISECONDS);
        try {
            if (heard != null) {
                heard.run();
            }
        } catch (RuntimeException e) {
            defect(e);
        }
        try {
            if (restoring) {
                restore();
            }
            operators.work();
            participant.tick(clock.getAsLong());
        } catch (RuntimeException e) {
            defect(e);
        }
        outcome = switch (participant.state().phase()) {
            case COMMITTED -> FinalOutcome.COMMITTED;
            case ROLLED_BACK -> FinalOutcome.ROLLED_BACK;
            default -> null;
        };
    }

    /** A defect of this service ends an attempt that is not voted for; the thread continues: what is decided is due. */
    private void defect(RuntimeException e) {
        long nowNs = System.nanoTime();
        if (!defective || nowNs - nextSayNs >= 0) {
            nextSayNs = nowNs + SAY_NS;
            LOG.error("migration {}: a defect of this service; please report it", id, e);
        }
        defective = true;
        failed("a defect of the target's service: " + e);
    }

    private void fromSource(Message message, ControlLink from) {
        if (from == dropped) {
            return;
        }
        if (link != from) {
            link = from;
            participant.linkUp(clock.getAsLong());
        }
        if (message instanceof DataMessage.TransferFailure failed) {
            if (failedSource != from) {
                // Said once on a connection; what it says again changes nothing.
                failedSource = from;
                fail("the source fails: " + failed.reason());
            }
        } else if (message instanceof ControlMessage.StoppedByJob stopped) {
            if (restoring && link.attempt() == attempt) {
                copies.jobHadStopped(
                        stopped.rank(), new StoppedProcesses(stopped.pids(), stopped.parents(), stopped.stopped()));
            }
        } else if (message instanceof ControlMessage.OriginalRights originals) {
            if (restoring && link.attempt() == attempt) {
                onRankMessage(() -> restoration.onMessage(originals));
            }
        } else if (message instanceof ControlMessage.CarriedFiles carry) {
            if (restoring && link.attempt() == attempt) {
                onRankMessage(() -> restoration.onMessage(carry));
            }
        } else if (message instanceof ControlMessage.OfTransaction said) {
            participant.heard(from.attempt(), said, clock.getAsLong());
        }
    }

    private void lost(String reason, ControlLink which) {
        if (which == link) {
            if (!isOver()) {
                LOG.warn("migration {}: the source was lost: {}", id, reason);
            }
            link = null;
            participant.linkDown(clock.getAsLong());
        }
    }

    private interface Hearing {
        void hear() throws CheckpointException;
    }

    private void onRankMessage(Hearing said) {
        try {
            said.hear();
        } catch (CheckpointException e) {
            fail(String.valueOf(e.getMessage()));
        }
    }

    private void restore() throws InterruptedException {
        try {
            if (restoration.work(this::send) && inbox.isEmpty()) {
                vote();
            }
        } catch (IOException | CheckpointException | RuntimeException e) {
            fail(String.valueOf(e.getMessage()));
        }
    }

    /**
     * Votes. All is restored and whole, and everything that the source said before the end of its images is heard.
     */
    private void vote() throws IOException, CheckpointException {
        copies.findStopped();
        String notHeld = copies.whyNotHeld();
        if (!notHeld.isEmpty()) {
            fail(notHeld);
            return;
        }
        restoration.requireNoMore();
        jobCommands.keep();
        service.journal().append(new TransactionRecord.Secret(id, attempt, secret));
        noteStopped();
        restoring = false;
        participant.copiesHeld(source, copies.planned(self), clock.getAsLong());
    }

    /** The vote follows, with whose sync this is on the disk. */
    private void noteStopped() throws IOException {
        List<PlannedRank> stopped = copies.stopped(self);
        if (!stopped.isEmpty()) {
            service.journal().append(new TransactionRecord.JobStopped(id, attempt, stopped));
        }
    }

    private void fail(String reason) {
        if (restoring) {
            // Said here too, so that the source knows the reason before it hears the end.
            send(new DataMessage.TransferFailure(reason));
        }
        participant.on(new ParticipantEvent.LocalFailure(reason), clock.getAsLong());
    }

    private void send(Message message) {
        if (link != null) {
            send(message, link);
        }
    }

    private static void send(Message message, ControlLink to) {
        try {
            to.send(message);
        } catch (IOException e) {
            LOG.debug("{} is not reached: {}", to.peer(), e.toString());
        }
    }

    // ---- what operators ask and say --------------------------------------------------------------------------

    @Override
    public String phase() {
        return participant.state().phase().name();
    }

    @Override
    public long waitsSinceNs() {
        return participant.waitsSinceNs();
    }

    @Override
    public Future<List<Integer>> heldRanks() {
        return CompletableFuture.completedFuture(copies.heldRanks());
    }

    @Override
    public OperatorDecision.DecisionPreview ruling(OperatorDecision word) {
        return participant.ruling(word);
    }

    @Override
    public void resolve(OperatorDecision word) {
        participant.resolve(word, clock.getAsLong());
    }

    @Override
    public String ending() {
        return switch (participant.state().phase()) {
            case COMMITTED -> "Migration " + id + " has committed: its copies run here.";
            case ROLLED_BACK -> "Migration " + id + " is rolled back: no copy of it is left here.";
            default -> "Migration " + id + " has nothing here.";
        };
    }

    @Override
    public String waitsFor() {
        return participant.waitsFor();
    }

    @Override
    public boolean seeksProof() {
        return participant.seeksProof();
    }

    // ---- what follows ------------------------------------------------------------------------------------------

    @Override
    public Execution carryOut(Effect effect) throws IOException {
        if (effect instanceof Effect.Persist persist) {
            service.journal().persist(persist.record());
        } else if (effect instanceof Effect.Reply reply) {
            reply(reply.message());
        } else if (effect instanceof Effect.Send send) {
            send(send.participant(), send.attempt(), send.message());
        } else if (effect instanceof Effect.StartRestore) {
            startRestore();
        } else if (effect instanceof Effect.ProveCopies) {
            participant.copiesProved(copies.whyNotHeld());
        } else if (effect instanceof Effect.ProveForPromise promise) {
            participant.promiseProved(promise, copies.whyNotHeld());
        } else if (effect instanceof Effect.ReleaseCopies) {
            return releaseCopies() ? Execution.DONE : Execution.FAILED;
        } else if (effect instanceof Effect.EndCopies) {
            return endCopies() ? Execution.DONE : Execution.FAILED;
        } else if (effect instanceof Effect.FenceSource) {
            fenceSource(participant.source(), participant.fenceEndNs());
        } else if (effect instanceof Effect.DropSourceLink) {
            dropSourceLink();
        } else if (effect instanceof Effect.Reconnect) {
            reconnect();
        } else if (effect instanceof Effect.Say text) {
            LOG.error("migration {}: {}", id, text.text());
        } else if (effect instanceof Effect.Finished finished) {
            finished(finished.outcome(), finished.reason());
        } else {
            throw new IllegalStateException("not a participant's: " + effect);
        }
        return Execution.DONE;
    }

    /**
     * Says it to the source if that can be reached now; else drops it, as it is said again. The clock of an Accept and
     * the report of a vote are put in here.
     */
    private void reply(ControlMessage message) {
        if (message instanceof ControlMessage.Committed || message instanceof ControlMessage.RolledBack) {
            // Having heard this the source closes the connection: nothing is lost by that.
            conversationOver.run();
        }
        if (message instanceof ControlMessage.Prepared) {
            voted = true;
            if (restoration != null) {
                restoration.voted();
            }
            send(new ControlMessage.Prepared(report()));
        } else if (message instanceof ControlMessage.Accept accept) {
            send(new ControlMessage.Accept(System.nanoTime(), accept.fenceWindowMs(), accept.silenceLimitMs()));
        } else {
            send(message);
        }
    }

    private TransferReport report() {
        return restoration == null ? TransferReport.EMPTY : restoration.report();
    }

    private void send(String to, int about, ControlMessage message) {
        ControlLink asker = askers.get(to);
        if (self.isEmpty() && asker != null) {
            // Who has nothing of the migration does not know its secret, so that it could only open a connection in
            // vain.
            send(message, asker);
            return;
        }
        couriers.computeIfAbsent(about + " " + to, key -> reconnectingLink(to, about))
                .send(message);
    }

    private ReconnectingLink reconnectingLink(String to, int about) {
        return new ReconnectingLink(
                () -> new Connector(HostPort.ofParticipant(to).lookUp(), settings.authenticator(), CONNECT_DEADLINE),
                to,
                about,
                settings.node().silenceLimit(),
                new ControlMessage.Participation(id, self, secret),
                (answer, lengthBytes) -> onPeerReply(to, about, answer, lengthBytes));
    }

    private void startRestore() {
        restoring = true;
        try {
            restoration.start();
        } catch (RuntimeException e) {
            defect(e);
        }
    }

    private void dropSourceLink() {
        if (link != null) {
            dropped = link;
            link.close();
            link = null;
        }
    }

    /** The copies continue; gives false only where it makes sense to try again. One that is gone is logged. */
    private boolean releaseCopies() {
        try {
            service.surroundings().attach(move());
        } catch (IOException e) {
            LOG.error("migration {}: its pods are held until their network is in order: {}", id, e.getMessage());
            return false;
        }
        try {
            service.placements().commit(id, attempt);
        } catch (IOException e) {
            // The journal says the same: what is recovered goes by either.
            LOG.error("migration {}: the note of its files cannot be written: {}", id, e.getMessage());
        }
        copies.release();
        service.placements().finish(id, attempt);
        LOG.info("migration {}: committed, {} ranks run here", id, copies.count());
        try {
            jobCommands.resumed(id, copies.planned(self));
        } catch (RuntimeException e) {
            // The copies run.
            defect(e);
        }
        return true;
    }

    /** Stops what is being restored and ends every copy; gives whether it is proved that none is left. */
    private boolean endCopies() {
        restoring = false;
        boolean ended = restoration == null || restoration.giveUp("the migration is rolled back");
        if (!copies.end() || !ended || !service.placements().undo(id, attempt)) {
            return false;
        }
        try {
            service.surroundings().discard(move());
            return true;
        } catch (IOException e) {
            LOG.error("migration {}: something of its pods is left here: {}", id, e.getMessage());
            return false;
        }
    }

    private void fenceSource(String node, long untilNs) {
        String gone = copies.whyNotHeld();
        if (!gone.isEmpty() || settings.fence().isEmpty()) {
            participant.notFenced(gone);
            return;
        }
        settings.fence()
                .get()
                .start(
                        node,
                        settings.node().workDirectory().resolve("fence-" + id),
                        service.programs(),
                        () -> clock.getAsLong() - untilNs < 0,
                        off -> inbox.add(() -> participant.fenceEnded(off, clock.getAsLong())));
    }

    /** Decided here, and every copy runs. */
    private void reconnect() {
        try {
            jobCommands.reconnect(id);
        } catch (RuntimeException e) {
            defect(e);
        }
    }

    private void finished(FinalOutcome how, String reason) {
        LOG.info("migration {}: {} here{}", id, how, reason.isEmpty() ? "" : ": " + reason);
    }

    /** The node of a peer's address as the socket shows it. */
    private static String hostOf(String peer) {
        String address = peer.substring(peer.indexOf('/') + 1);
        return address.substring(0, address.lastIndexOf(':'));
    }
}
