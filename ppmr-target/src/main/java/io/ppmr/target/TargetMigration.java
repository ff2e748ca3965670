package io.ppmr.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.TransferReport;
import io.ppmr.target.session.Transfer;
import io.ppmr.transaction.OpenMigration;
import io.ppmr.transaction.OperatorCall;
import io.ppmr.transaction.Outcome;
import io.ppmr.transaction.Participant;
import io.ppmr.transaction.ParticipantEvent;
import io.ppmr.transaction.ParticipantPorts;
import io.ppmr.transaction.ParticipantState.Phase;
import io.ppmr.transaction.PlannedRank;
import io.ppmr.transaction.TransactionJournal;
import io.ppmr.transaction.TransactionMessage;
import io.ppmr.transaction.TransactionRecord;
import io.ppmr.transaction.TransactionTimes;
import io.ppmr.transaction.WireMessages;
import io.ppmr.transport.ControlLink;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One migration at the target, new or taken up again from the journal: feeds what happens to the {@link Participant}
 * and
 * carries out what follows. Restored ranks are held until it is decided.
 *
 * <p>Its thread, which owns everything here, is that of the control connection that began it, or one of its own.
 */
final class TargetMigration implements ParticipantPorts {
    private static final Logger LOG = LoggerFactory.getLogger(TargetMigration.class);
    private static final long POLL_MS = 5;
    private static final long QUIET_POLL_MS = 200;
    /** Long enough for TCP to get through once a link that was down for some seconds is up again. */
    private static final long LAST_WORDS_NS = TimeUnit.SECONDS.toNanos(15);

    private final String id;
    private final TargetSettings settings;
    private final NativePrograms programs;
    private final BlockingQueue<Heard> inbox = new LinkedBlockingQueue<>();
    private final OtherTargets others;
    private final Participant participant;
    private final List<TransactionRecord> records;
    private final OperatorView operators;
    private final Reconnection reconnection;
    private final TransactionJournal journal;
    private Runnable conversationOver = () -> LOG.debug("all is said");
    private CopiedRanks copies;
    private Restoration restoration;
    private ControlLink link;
    private ControlLink dropped;
    private String source = "";
    private String self = "";
    private int attempt;
    private boolean restoring;
    private volatile boolean voted;
    private volatile boolean gone;
    private volatile Outcome outcome;

    /**
     * A migration as the journal knows it.
     *
     * @param copies the ranks that were voted for
     * @param records what the journal has of it
     */
    TargetMigration(
            String id,
            TargetSettings settings,
            NativePrograms programs,
            CopiedRanks copies,
            List<TransactionRecord> records,
            TransactionJournal journal) {
        this.id = id;
        this.settings = settings;
        this.programs = programs;
        this.copies = copies;
        this.records = List.copyOf(records);
        this.voted = !records.isEmpty();
        this.others = new OtherTargets(id, settings);
        this.reconnection = new Reconnection(settings, programs, records);
        this.journal = journal;
        long silenceNs = settings.silenceLimit().toNanos();
        TransactionTimes times = TransactionTimes.usual(silenceNs, 0);
        this.participant = new Participant(
                id,
                settings.fence()
                        .map(fence -> times.withFence(
                                fence.delay().toNanos(), fence.deadline().toNanos()))
                        .orElse(times),
                journal,
                this);
        this.operators = new OperatorView(id, participant, this::isOver, () -> this.copies.heldRanks());
    }

    /** What restores the ranks of an attempt that begins. */
    Restoration restoration(
            ControlMessage.Begin begin, Checkpointer checkpointer, Transfer transfer, String directory) {
        copies = new CopiedRanks(id);
        return new Restoration(begin, checkpointer, transfer, settings, directory, copies, programs);
    }

    String id() {
        return id;
    }

    /** Whether only a decision ends it now. Any thread. */
    boolean isPrepared() {
        return voted;
    }

    /** How it ended; empty while it has not. Any thread. */
    Optional<Outcome> outcome() {
        return Optional.ofNullable(outcome);
    }

    /** Takes an operator's word. Any thread; false once its thread has ended. */
    boolean take(OperatorCall call) {
        return operators.take(call);
    }

    /** Where it stands, if an operator should know of it. Any thread. */
    Optional<OpenMigration> open() {
        return operators.open();
    }

    /** Tells its thread something. Any thread. */
    void hear(Heard heard) {
        inbox.add(heard);
    }

    /** Fails it, unless it is prepared. Any thread. */
    void giveUp(String reason) {
        if (!voted) {
            hear(new Heard.Failed(reason));
        }
    }

    /** Takes part in an attempt, from the source's question to the end. */
    void begin(ControlMessage.Begin begin, Restoration toRestore, ControlLink from, Runnable over)
            throws InterruptedException {
        participant.recover(records, System.nanoTime());
        conversationOver = over;
        voted = false;
        restoration = toRestore;
        link = from;
        attempt = from.attempt();
        source = hostOf(from.peer());
        self = begin.participants().get(begin.place());
        reconnection.begun(begin, attempt);
        participant.heard(new TransactionMessage.Begin(id, attempt, begin.participants(), self), System.nanoTime());
        goOn();
    }

    /** Takes up again what the journal knows of it. */
    void run() throws InterruptedException {
        participant.recover(records, System.nanoTime());
        attempt = participant.state().attempt();
        self = participant.state().self();
        if (!participant.state().done()) {
            operators.takenUp();
        }
        goOn();
    }

    /** Whether its thread has ended. Any thread. */
    boolean isGone() {
        return gone;
    }

    /** Goes on until nothing is left to do and the last word has been heard. */
    private void goOn() throws InterruptedException {
        try {
            do {
                step();
            } while (!isOver());
            conversationOver.run();
            long deadlineNs = System.nanoTime() + LAST_WORDS_NS;
            while (link != null && System.nanoTime() - deadlineNs < 0) {
                step();
            }
        } finally {
            gone = true;
            operators.close();
            others.close();
        }
    }

    private boolean isOver() {
        Phase phase = participant.state().phase();
        return participant.isSettled()
                && participant.state().done()
                && (phase == Phase.COMMITTED || phase == Phase.ROLLED_BACK || phase == Phase.NOTHING);
    }

    private void step() throws InterruptedException {
        Heard heard = inbox.poll(restoring ? POLL_MS : QUIET_POLL_MS, TimeUnit.MILLISECONDS);
        if (heard != null) {
            hearNow(heard);
        }
        if (restoring) {
            restore();
        }
        operators.work();
        participant.tick(System.nanoTime());
        outcome = switch (participant.state().phase()) {
            case COMMITTED -> Outcome.COMMITTED;
            case ROLLED_BACK -> Outcome.ROLLED_BACK;
            default -> null;
        };
    }

    private void hearNow(Heard heard) {
        if (heard instanceof Heard.FromSource said) {
            if (said.link() == dropped) {
                return;
            }
            if (link != said.link()) {
                link = said.link();
                participant.linkUp(System.nanoTime());
            }
            if (said.message() instanceof ControlMessage.Failed failed) {
                fail("the source fails: " + failed.reason());
            } else if (said.message() instanceof ControlMessage.Stopped stopped) {
                if (restoring && link.attempt() == attempt) {
                    copies.jobHadStopped(
                            stopped.rank(), new StoppedProcesses(stopped.pids(), stopped.parents(), stopped.stopped()));
                }
            } else if (said.message() instanceof ControlMessage.Originals originals) {
                if (restoring && link.attempt() == attempt) {
                    hearOriginals(originals);
                }
            } else {
                WireMessages.fromWire(said.link().attempt(), said.message())
                        .ifPresent(message -> participant.heard(message, System.nanoTime()));
            }
        } else if (heard instanceof Heard.FromPeer said) {
            WireMessages.fromWire(said.attempt(), said.message())
                    .ifPresent(message -> participant.heardPeer(said.participant(), message, System.nanoTime()));
        } else if (heard instanceof Heard.SourceLost lost) {
            if (lost.link() == link) {
                if (!isOver()) {
                    LOG.warn("migration {}: the source was lost: {}", id, lost.reason());
                }
                link = null;
                participant.linkDown(System.nanoTime());
            }
        } else if (heard instanceof Heard.Failed failed) {
            fail(failed.reason());
        } else if (heard instanceof Heard.FenceEnded ended) {
            participant.fenceEnded(ended.off(), System.nanoTime());
        }
    }

    private void hearOriginals(ControlMessage.Originals said) {
        try {
            restoration.hear(said);
        } catch (CheckpointException e) {
            fail(String.valueOf(e.getMessage()));
        }
    }

    private void restore() throws InterruptedException {
        try {
            if (restoration.work(this::say) && inbox.isEmpty()) {
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
        reconnection.keep(journal);
        noteStopped();
        restoring = false;
        participant.copiesHeld(source, copies.planned(self), System.nanoTime());
    }

    /** The vote follows, with whose sync this is on the disk. */
    private void noteStopped() throws IOException {
        List<PlannedRank> stopped = copies.stopped(self);
        if (!stopped.isEmpty()) {
            journal.append(new TransactionRecord.Stopped(id, attempt, stopped));
        }
    }

    private void fail(String reason) {
        if (restoring) {
            // Said here too, so that the source knows the reason before it hears the end.
            say(new ControlMessage.Failed(reason));
        }
        participant.on(new ParticipantEvent.Failed(reason), System.nanoTime());
    }

    private void say(ControlMessage message) {
        if (link == null) {
            return;
        }
        try {
            link.send(message);
        } catch (IOException e) {
            LOG.debug("the source is not reached: {}", e.toString());
        }
    }

    // ---- what follows ------------------------------------------------------------------------------------------

    @Override
    public void reply(TransactionMessage message) {
        if (message instanceof TransactionMessage.Prepared) {
            voted = true;
            if (restoration != null) {
                restoration.voted();
            }
            say(new ControlMessage.Prepared(report()));
        } else if (message instanceof TransactionMessage.Accepted accepted) {
            say(new ControlMessage.Accept(
                    System.nanoTime(),
                    TimeUnit.NANOSECONDS.toMillis(accepted.fenceWindowNs()),
                    TimeUnit.NANOSECONDS.toMillis(accepted.silenceLimitNs())));
        } else {
            WireMessages.toWire(message).ifPresent(this::say);
        }
    }

    private TransferReport report() {
        return restoration == null ? new TransferReport(0, 0, 0, 0, 0, List.of()) : restoration.report();
    }

    @Override
    public void send(String to, TransactionMessage message) {
        WireMessages.toWire(message)
                .ifPresent(control -> others.say(
                        to, attempt, self, control, answer -> hear(new Heard.FromPeer(to, attempt, answer))));
    }

    @Override
    public void startRestore(int number) {
        restoring = true;
        try {
            restoration.start();
        } catch (IOException | CheckpointException e) {
            hear(new Heard.Failed(String.valueOf(e.getMessage())));
        }
    }

    @Override
    public void dropSourceLink() {
        if (link != null) {
            dropped = link;
            link.close();
            link = null;
        }
    }

    @Override
    public String copiesHeld() {
        return copies.whyNotHeld();
    }

    @Override
    public boolean releaseCopies() {
        copies.release();
        LOG.info("migration {}: committed, {} ranks run here", id, copies.count());
        return true;
    }

    @Override
    public boolean endCopies() {
        restoring = false;
        if (restoration != null) {
            restoration.giveUp("the migration is rolled back");
        }
        return copies.end();
    }

    @Override
    public boolean fenceSource(String node, long untilNs) {
        settings.fence()
                .ifPresent(fence -> fence.start(
                        node,
                        work(),
                        programs,
                        () -> System.nanoTime() - untilNs < 0,
                        off -> hear(new Heard.FenceEnded(off))));
        return settings.fence().isPresent();
    }

    @Override
    public void reconnect() {
        reconnection.run(id);
    }

    @Override
    public void say(String text) {
        LOG.error("migration {}: {}", id, text);
    }

    @Override
    public void finished(Outcome how, String reason) {
        LOG.info("migration {}: {} here{}", id, how, reason.isEmpty() ? "" : ": " + reason);
    }

    private Path work() {
        return settings.workDirectory().resolve("fence-" + id);
    }

    /** The node of a peer's address as the socket shows it. */
    private static String hostOf(String peer) {
        String address = peer.substring(peer.indexOf('/') + 1);
        return address.substring(0, address.lastIndexOf(':'));
    }
}
