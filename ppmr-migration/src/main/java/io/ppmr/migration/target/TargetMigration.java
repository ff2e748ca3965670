package io.ppmr.migration.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.linux.BootClock;
import io.ppmr.linux.HostPort;
import io.ppmr.migration.OperatorView;
import io.ppmr.migration.QuietPoll;
import io.ppmr.migration.ReconnectingLink;
import io.ppmr.migration.node.FileComparison;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
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
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One migration at the target, new or recovered from the journal. It passes events to the {@link Participant} and
 * carries out the effects. Restored ranks are held until the decision.
 *
 * <p>Its thread, which owns all its fields, is that of the control connection that began it, or one of its own.
 */
final class TargetMigration implements EffectExecutor, OperatorView.ViewedMigration {
    private static final Logger LOG = LoggerFactory.getLogger(TargetMigration.class);
    private static final Duration CONNECT_DEADLINE = Duration.ofSeconds(5);
    private static final long POLL_MS = 5;
    private static final long QUIET_POLL_MS = 200;
    private static final long REPORT_NS = TimeUnit.SECONDS.toNanos(10);
    /** Covers TCP's retransmission back-off after a link outage of a few seconds. */
    private static final long LAST_MESSAGE_NS = TimeUnit.SECONDS.toNanos(15);

    private final String id;
    private final TargetContext service;
    private final LongSupplier clock;
    private final TargetSettings settings;
    private final Participant participant;
    private final List<TransactionRecord> records;
    private final OperatorView operators;
    private final JobCommands jobCommands;
    /** The messages and tasks for its thread, in the order of their arrival. */
    private final BlockingQueue<Runnable> inbox = new LinkedBlockingQueue<>();

    private final Backlog backlog;
    /** Links to the migration's other targets, each about one attempt, by the attempt's number and the address. */
    private final Map<String, ReconnectingLink> peerLinks = new HashMap<>();
    /** The connection on which another target has sent its last message. */
    private final Map<String, ControlLink> peerConnections = new HashMap<>();

    private final MigrationSecret secret;

    private Runnable onConversationEnd = () -> LOG.debug("the conversation ended");
    private RestoredRanks copies;
    private Restoration restoration;
    private ControlLink link;
    /** Connections of the source that a later one has replaced, until their ends. */
    private final Set<ControlLink> replaced = new HashSet<>();
    /** Connections whose messages no longer count, since the source may be fenced, until their ends. */
    private final Set<ControlLink> dropped = new HashSet<>();

    private ControlLink failedSource;
    private String source = "";
    private String self = "";
    private TransactionRecord.PeerNode sourceNode;
    private int attempt;
    private boolean restoring;
    private boolean defective;
    private long nextReportNs;
    private volatile boolean voted;
    private volatile boolean gone;
    private volatile FinalOutcome outcome;

    /**
     * Makes a migration from its records in the journal. Without records, nothing of it exists here.
     *
     * @param secret the migration's secret, NONE if unknown
     * @param backlog size of the messages that wait for its thread
     * @param records its records in the journal
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
        TransactionTimes times = TransactionTimes.standard(silenceNs, 0);
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

    /** Returns the name of this attempt for the pods. */
    private String move() {
        return id + "." + attempt;
    }

    String id() {
        return id;
    }

    /** Returns true if only a decision can end the migration now. Any thread. */
    boolean isPrepared() {
        return voted;
    }

    /** Returns the outcome, or empty while the migration has not ended. Any thread. */
    Optional<FinalOutcome> outcome() {
        return Optional.ofNullable(outcome);
    }

    /** Adds an operator's decision. Any thread. Returns false once the migration's thread ended. */
    boolean offer(OperatorInbox.PendingDecision call) {
        boolean taken = operators.submit(call);
        checkRestarts();
        return taken;
    }

    /** Returns its last known state, if an operator should see it. A waiting migration refreshes it. Any thread. */
    Optional<OpenMigration> open() {
        checkRestarts();
        return operators.open();
    }

    /** Wakes its thread to check the restarts. */
    private void checkRestarts() {
        if (!inbox.isEmpty()) {
            return;
        }
        inbox.add(() -> LOG.trace("migration {}: a look", id));
    }

    /** Adds a message from the source. Any thread. Throws if the source sends too much. */
    void onSourceMessage(SessionEvent.MessageReceived received, ControlLink from) throws ProtocolException {
        onMessage(received.lengthBytes(), () -> fromSource(received.message(), from));
    }

    private void onMessage(int lengthBytes, Runnable message) throws ProtocolException {
        int charge = backlog.reserve(lengthBytes);
        inbox.add(() -> {
            backlog.release(charge);
            message.run();
        });
    }

    /** Notes that a connection of the source is lost. Any thread. */
    void sourceLost(String reason, ControlLink which) {
        inbox.add(() -> lost(reason, which));
    }

    /** Returns whether a peer with this secret is a participant of the migration. Any thread. */
    boolean isParticipantSecret(MigrationSecret shown) {
        return shown.matches(secret);
    }

    /**
     * Adds a message from another target of the migration, on a connection that it has opened. Any thread. Throws if it
     * sends too much.
     */
    void onPeerMessage(String from, SessionEvent.MessageReceived message, ControlLink on) throws ProtocolException {
        if (message.message() instanceof ControlMessage.OfTransaction received) {
            onMessage(message.lengthBytes(), () -> {
                peerConnections.put(from, on);
                participant.onPeerMessage(from, on.attempt(), received, clock.getAsLong());
            });
        }
    }

    private void onPeerReply(String from, int itsAttempt, Message message, int lengthBytes) throws ProtocolException {
        if (message instanceof ControlMessage.OfTransaction received) {
            onMessage(lengthBytes, () -> participant.onPeerMessage(from, itsAttempt, received, clock.getAsLong()));
        }
    }

    /** Notes that the transfer, or another part of the attempt, failed. Any thread. */
    void failed(String reason) {
        inbox.add(() -> fail(reason));
    }

    /** Fails the attempt, unless it is prepared. Any thread. */
    void giveUp(String reason) {
        if (!voted) {
            failed(reason);
        }
    }

    /** Takes part in an attempt, from the source's request to the end. */
    void begin(ControlMessage.Begin begin, Restoration toRestore, ControlLink from, Runnable over)
            throws InterruptedException {
        participant.recover(records, clock.getAsLong(), BootClock.suspendedNs());
        onConversationEnd = over;
        voted = false;
        restoration = toRestore;
        link = from;
        attempt = from.attempt();
        source = hostOf(from.peer());
        self = begin.participants().get(begin.participantIndex());
        sourceNode = new TransactionRecord.PeerNode(
                id, attempt, source, from.version().number(), begin.bootId());
        jobCommands.begun(begin, attempt);
        participant.onMessage(attempt, begin, clock.getAsLong());
        runLoop();
    }

    /** Recovers the migration from the journal. */
    void run() throws InterruptedException {
        // A decision is carried out during the recovery, on the copies and the pod of the last attempt.
        ParticipantState known = ParticipantRules.recover(id, records).state();
        attempt = known.attempt();
        self = known.self();
        participant.recover(records, clock.getAsLong(), BootClock.suspendedNs());
        if (!participant.state().done()) {
            operators.markRecovered();
        }
        runLoop();
    }

    /** Returns the number of its last attempt, 0 if there was none. Its own thread. */
    int attempt() {
        return attempt;
    }

    /** Returns true if its thread ended. Any thread. */
    boolean isGone() {
        return gone;
    }

    /** Runs until no work is left and the last message was sent. */
    private void runLoop() throws InterruptedException {
        try {
            do {
                step(QuietPoll.clampMs(
                        operators.hasPending() ? 0 : participant.nextDeadlineNs() - clock.getAsLong(),
                        QUIET_POLL_MS,
                        settings.node().silenceLimit()));
            } while (!isOver());
            onConversationEnd.run();
            long deadlineNs = System.nanoTime() + LAST_MESSAGE_NS;
            while (link != null && System.nanoTime() - deadlineNs < 0) {
                step(QUIET_POLL_MS);
            }
        } finally {
            gone = true;
            operators.close();
            peerLinks.values().forEach(ReconnectingLink::close);
        }
    }

    @Override
    public boolean isOver() {
        Phase phase = participant.state().phase();
        return participant.isSettled()
                && participant.state().done()
                && (phase == Phase.COMMITTED || phase == Phase.ROLLED_BACK || phase == Phase.NOTHING);
    }

    /** @param quietMs time to sleep while no rank is restored, unless an event arrives before */
    private void step(long quietMs) throws InterruptedException {
        Runnable task = inbox.poll(restoring ? POLL_MS : quietMs, TimeUnit.MILLISECONDS);
        try {
            if (task != null) {
                task.run();
            }
        } catch (RuntimeException e) {
            defect(e);
        }
        try {
            if (restoring) {
                restore();
            }
            operators.process();
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

    /**
     * Handles a defect of this service, which ends an attempt without a vote. The thread continues, because decisions
     * must be carried out.
     */
    private void defect(RuntimeException e) {
        long nowNs = System.nanoTime();
        if (!defective || nowNs - nextReportNs >= 0) {
            nextReportNs = nowNs + REPORT_NS;
            LOG.error("migration {}: a defect of this service; please report it", id, e);
        }
        defective = true;
        failed("a defect of the target's service: " + e);
    }

    private void fromSource(Message message, ControlLink from) {
        if (dropped.contains(from)) {
            return;
        }
        if (from.attempt() < attempt) {
            answerAboutEarlier(message, from);
            return;
        }
        if (link != from && (link == null || !replaced.contains(from))) {
            if (link != null) {
                replaced.add(link);
            }
            link = from;
            participant.linkUp(clock.getAsLong());
        }
        if (message instanceof DataMessage.TransferFailure failed) {
            if (failedSource != from) {
                // The reason is sent once on a connection. Repetitions of this message change nothing.
                failedSource = from;
                fail("the source fails: " + failed.reason());
            }
        } else if (message instanceof ControlMessage.StoppedByJob stopped) {
            if (restoring && link.attempt() == attempt) {
                copies.noteStoppedByJob(
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
        } else if (message instanceof ControlMessage.OfTransaction received) {
            participant.onMessage(from.attempt(), received, clock.getAsLong());
        }
    }

    /**
     * Answers a message about an attempt that is over. Its connection ends soon, and the present attempt must not end
     * with it.
     */
    private void answerAboutEarlier(Message message, ControlLink from) {
        if (message instanceof ControlMessage.OfTransaction received) {
            participant.answerAboutEarlier(from.attempt(), received).ifPresent(answer -> send(answer, from));
        }
    }

    private void lost(String reason, ControlLink which) {
        replaced.remove(which);
        dropped.remove(which);
        if (which == link) {
            if (!isOver()) {
                LOG.warn("migration {}: the source was lost: {}", id, reason);
            }
            link = null;
            participant.linkDown(clock.getAsLong());
        }
    }

    private interface RankMessageHandler {
        void onMessage() throws CheckpointException;
    }

    private void onRankMessage(RankMessageHandler received) {
        try {
            received.onMessage();
        } catch (CheckpointException e) {
            fail(String.valueOf(e.getMessage()));
        }
    }

    private void restore() throws InterruptedException {
        try {
            if (restoration.checkRestarts(this::send) && inbox.isEmpty()) {
                vote();
            }
        } catch (IOException | CheckpointException | RuntimeException e) {
            fail(String.valueOf(e.getMessage()));
        }
    }

    /** Votes. All ranks are restored, and all messages before the end of the images were handled. */
    private void vote() throws IOException, CheckpointException {
        copies.findStopped();
        String notHeld = copies.whyNotHeld();
        if (!notHeld.isEmpty()) {
            fail(notHeld);
            return;
        }
        restoration.requireNoEscalation();
        jobCommands.recordPlacement();
        service.journal().append(new TransactionRecord.Secret(id, attempt, secret));
        service.journal().append(sourceNode);
        noteStopped();
        restoring = false;
        participant.copiesHeld(source, copies.planned(self), clock.getAsLong());
    }

    /** Records the stopped processes. The vote's sync follows, and brings the record to the disk. */
    private void noteStopped() throws IOException {
        List<PlannedRank> stopped = copies.stopped(self);
        if (!stopped.isEmpty()) {
            service.journal().append(new TransactionRecord.JobStopped(id, attempt, stopped));
        }
    }

    private void fail(String reason) {
        if (restoring) {
            // The reason is sent here, too, so that the source has it before the end.
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
            LOG.debug("{} is unreachable: {}", to.peer(), e.toString());
        }
    }

    // ---- operators' queries and decisions --------------------------------------------------------------------

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
    public OperatorDecision.DecisionPreview preview(OperatorDecision decision) {
        return participant.preview(decision);
    }

    @Override
    public void resolve(OperatorDecision decision) {
        participant.resolve(decision, clock.getAsLong());
    }

    @Override
    public String describeEnd() {
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
    public boolean isSeekingProof() {
        return participant.isSeekingProof();
    }

    // ---- effects ---------------------------------------------------------------------------------------------

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
        } else if (effect instanceof Effect.Report text) {
            LOG.error("migration {}: {}", id, text.text());
        } else if (effect instanceof Effect.Finished finished) {
            finished(finished.outcome(), finished.reason());
        } else {
            throw new IllegalStateException("not a participant's: " + effect);
        }
        return Execution.DONE;
    }

    /**
     * Sends a message to the source if it is reachable. Otherwise the message is dropped, because it is repeated later.
     * This adds the clock and the boot ID of an Accept, and the report of a vote.
     */
    private void reply(ControlMessage message) {
        if (message instanceof ControlMessage.Committed || message instanceof ControlMessage.RolledBack) {
            // The source closes the connection after this message. Nothing is lost by that.
            onConversationEnd.run();
        }
        if (message instanceof ControlMessage.Prepared) {
            voted = true;
            if (restoration != null) {
                restoration.noteVote();
            }
            send(new ControlMessage.Prepared(report()));
        } else if (message instanceof ControlMessage.Accept accept) {
            String bootId = link == null || link.version().isBefore(ProtocolVersion.V10) ? "" : FileComparison.kernel();
            send(new ControlMessage.Accept(System.nanoTime(), accept.fenceWindowMs(), accept.silenceLimitMs(), bootId));
        } else {
            send(message);
        }
    }

    private TransferReport report() {
        return restoration == null ? TransferReport.EMPTY : restoration.report();
    }

    private void send(String to, int about, ControlMessage message) {
        ControlLink asker = peerConnections.get(to);
        if (self.isEmpty() && asker != null) {
            // A peer that has nothing of the migration does not have its secret. A connection to it would be in vain.
            send(message, asker);
            return;
        }
        peerLinks
                .computeIfAbsent(about + " " + to, key -> reconnectingLink(to, about))
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
        dropped.addAll(replaced);
        replaced.forEach(ControlLink::close);
        replaced.clear();
        if (link != null) {
            dropped.add(link);
            link.close();
            link = null;
        }
    }

    /** Continues the copies. Returns false only if another try makes sense. A copy that is gone is logged. */
    private boolean releaseCopies() {
        try {
            service.surroundings().attach(move());
            service.surroundings().settle(move());
        } catch (IOException e) {
            LOG.error("migration {}: its pods stay held until their network is restored: {}", id, e.getMessage());
            return false;
        }
        try {
            service.placements().commit(id, attempt);
        } catch (IOException e) {
            // The journal has the same decision. A recovery uses either.
            LOG.error("migration {}: the note of its files could not be written: {}", id, e.getMessage());
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

    /** Stops running restores and kills every copy. Returns whether none is proved to be left. */
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
            LOG.error("migration {}: resources of its pods could not be removed: {}", id, e.getMessage());
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

    /** Runs the reconnect hook, because this target decided and every copy runs. */
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

    /** Returns the node of a peer's address from the socket. */
    private static String hostOf(String peer) {
        String address = peer.substring(peer.indexOf('/') + 1);
        return address.substring(0, address.lastIndexOf(':'));
    }
}
