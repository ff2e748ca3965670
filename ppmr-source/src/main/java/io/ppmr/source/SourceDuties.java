package io.ppmr.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.logging.LogFields;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.source.MigrationProgress.Step;
import io.ppmr.transaction.CoordinatorPorts;
import io.ppmr.transaction.Originals;
import io.ppmr.transaction.Outcome;
import io.ppmr.transaction.PlannedRank;
import io.ppmr.transaction.TransactionJournal;
import io.ppmr.transaction.TransactionMessage;
import io.ppmr.transaction.TransactionRecord;
import io.ppmr.transaction.WireMessages;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.IntConsumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;

/**
 * What a coordinator's decisions mean at the source: sessions and checkpoints, the originals, hooks, the fence. Owned
 * by
 * the migration's thread.
 */
final class SourceDuties implements CoordinatorPorts, AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(SourceDuties.class);

    /** Makes the data path of an attempt. */
    @FunctionalInterface
    interface AttemptMaker {
        Attempt make(int number, MigrationPlan plan);
    }

    /** A fence command has ended: whether the participant's node is proved off. */
    record Fenced(String participant, boolean off) {}

    /** Why an attempt has failed, and whose failure it is: a participant's, or nobody's if it is empty. */
    record Failure(String reason, String participant) {}

    private final String id;
    private final JobNotes job;
    private final SourceSettings settings;
    private final MigrationRecord record;
    private final OriginalRanks originals;
    private final NextAttempts nextAttempts;
    private final AttemptMaker attempts;
    private final Cancellation cancellation;
    private final Voices voices;
    private final NativePrograms programs;
    private final TransactionJournal journal;
    private final Path workDirectory;
    private final BlockingQueue<Attempt.Heard> heard = new LinkedBlockingQueue<>();
    private final Queue<Failure> failures = new ArrayDeque<>();
    private final Queue<Fenced> fenced = new ConcurrentLinkedQueue<>();
    private MigrationPlan plan;
    private volatile Attempt attempt;
    private int number;
    /** Checkpoint commands that an earlier run of the service has left. */
    private AbandonedCheckpoints abandoned = AbandonedCheckpoints.NONE;

    /** A hook that an earlier run of the service has left may still run. */
    private boolean hookAbandoned;

    private boolean moving;
    private boolean suspended;
    /** What the journal says of the processes that the job itself has stopped. */
    private List<PlannedRank> stopped = List.of();

    private MigrationReport report;
    private String lastWords = "a target is not reached; the originals are held or gone, its ranks are held there";

    SourceDuties(
            String id,
            JobNotes job,
            MigrationPlan plan,
            SourceSettings settings,
            MigrationRecord record,
            OriginalRanks originals,
            NextAttempts nextAttempts,
            AttemptMaker attempts,
            Cancellation cancellation,
            NativePrograms programs,
            TransactionJournal journal) {
        this.id = id;
        this.job = job;
        this.plan = plan;
        this.settings = settings;
        this.record = record;
        this.originals = originals;
        this.nextAttempts = nextAttempts;
        this.attempts = attempts;
        this.cancellation = cancellation;
        this.programs = programs;
        this.journal = journal;
        this.workDirectory = settings.workDirectory().resolve("hooks-" + id);
        this.voices = new Voices(settings, heard::add);
    }

    /** An earlier run of the service has come as far as this attempt. */
    void takenUpAt(int attemptNumber) {
        number = attemptNumber;
        hookAbandoned = true;
        abandoned = AbandonedCheckpoints.of(id, settings.workDirectory(), programs);
        voices.attempt(number);
    }

    // ---- the migration's thread asks ---------------------------------------------------------------------------

    /** Whether images are being moved now. */
    boolean isMoving() {
        return moving;
    }

    /** The next thing heard from a participant; null after a while without one, and for what an older attempt says. */
    Attempt.Heard poll(Duration atMost) throws InterruptedException {
        Attempt.Heard next = heard.poll(atMost.toMillis(), TimeUnit.MILLISECONDS);
        return next == null || next.attempt() != number ? null : next;
    }

    /** Takes notice of checkpoints that have ended, and of writes that have failed. */
    void work(IntConsumer beforeLast) throws IOException, CheckpointException, InterruptedException {
        List<Integer> complete = new ArrayList<>();
        attempt.work(complete::add);
        if (!complete.isEmpty()) {
            noteStopped();
            complete.forEach(beforeLast::accept);
        }
        attempt.spent().ifPresent(spent -> failures.add(new Failure(spent.reason(), participant(spent.place()))));
    }

    /** Writes down which processes the job itself has stopped, so that a restarted service leaves them so. */
    private void noteStopped() throws IOException {
        List<PlannedRank> now = originals.stopped(plan);
        if (!now.equals(stopped)) {
            journal.appendSynced(new TransactionRecord.Stopped(id, number, now));
            stopped = now;
        }
    }

    /** For what a rollback waits here, before anybody is told of it; empty while it does not. Any thread. */
    Optional<String> waitsFor() {
        Attempt current = attempt;
        return current == null ? Optional.empty() : current.waitsFor();
    }

    String participant(int place) {
        return plan.legs().get(place).address();
    }

    int placeOf(String participant) {
        return plan.addresses().indexOf(participant);
    }

    /** A participant's session is gone. */
    void lost(String participant) {
        voices.lost(participant);
    }

    /** The originals that a participant's image holds. */
    List<PlannedRank> heldFor(int place) {
        return originals.planned(plan.legs().get(place));
    }

    /** The ranks whose originals are proved to be stopped just now. */
    List<Integer> heldRanks() {
        return originals.heldRanks();
    }

    /** A failure that a duty has met with. */
    Optional<Failure> takeFailure() {
        return Optional.ofNullable(failures.poll());
    }

    /** A fence command that has ended. */
    Optional<Fenced> takeFenced() {
        return Optional.ofNullable(fenced.poll());
    }

    /** What a message of a participant says to the coordinator; what it says of the transfer is noted here. */
    Optional<TransactionMessage> toTransaction(String participant, ControlMessage message) {
        int place = placeOf(participant);
        if (message instanceof ControlMessage.Progress progress) {
            record.progress(place, progress);
            return Optional.empty();
        }
        if (message instanceof ControlMessage.Restored restored) {
            MDC.put(LogFields.RANK, Integer.toString(restored.rank()));
            LOG.info("migration {}: rank {} is restored and held on {}", id, restored.rank(), participant);
            MDC.remove(LogFields.RANK);
            record.restored(restored);
            return Optional.empty();
        }
        if (message instanceof ControlMessage.Accept accept) {
            return Optional.of(new TransactionMessage.Accepted(
                    id,
                    number,
                    TimeUnit.MILLISECONDS.toNanos(accept.fenceWindowMs()),
                    TimeUnit.MILLISECONDS.toNanos(accept.silenceLimitMs())));
        }
        if (message instanceof ControlMessage.Prepared prepared) {
            record.prepared(place, prepared.report());
            return Optional.of(new TransactionMessage.Prepared(id, number));
        }
        return WireMessages.fromWire(number, message);
    }

    MigrationReport report() {
        return report;
    }

    /** Whether the agents of the sessions do their work. Any thread; blocks it. */
    boolean goesRound(long limitNs) {
        Attempt current = attempt;
        return current == null || current.goesRound(limitNs);
    }

    // ---- the coordinator decides -------------------------------------------------------------------------------

    @Override
    public void send(String participant, TransactionMessage message) {
        WireMessages.toWire(message).ifPresent(control -> voices.say(participant, control));
    }

    @Override
    public List<String> nextAttempt(String reason, String participant) {
        int place = placeOf(participant);
        boolean another = nextAttempts.mayFollow(place, record.pausedNs(), originals.anyHeld());
        Optional<MigrationPlan> next = another ? nextAttempts.plan(plan, place) : Optional.empty();
        next.ifPresent(found -> LOG.info("migration {}: {} take part next", id, found.addresses()));
        return next.map(MigrationPlan::addresses).orElse(List.of());
    }

    @Override
    public void startAttempt(int attemptNumber, List<String> participants) {
        closeAttempt();
        if (originals.anyHeld() && !nextAttempts.checkpointsHeldRanks()) {
            // Held by a checkpoint that ended well in an attempt that had failed; nobody has a copy any more.
            originals.release();
            record.resumed();
        }
        number = attemptNumber;
        plan = nextAttempts.taken(participants).orElse(plan);
        record.newAttempt();
        voices.attempt(number);
        attempt = attempts.make(number, plan);
        record.step(Step.CONNECT);
        try {
            Attempt.NotTaken not = attempt.begin(id, cancellation, heard::add);
            if (not != null) {
                nextAttempts.notTaken(not);
                failures.add(new Failure(not.reason(), participant(not.place())));
                return;
            }
            for (int place = 0; place < plan.legs().size(); place++) {
                voices.connected(attempt.session(place));
            }
            originals.lookForStopped();
            noteStopped();
            suspend();
            record.step(Step.CHECKPOINT);
            moving = true;
            nextAttempts.begun();
            record.expects(originals.imageBytes());
            attempt.startCheckpoints();
        } catch (IOException | CheckpointException e) {
            failures.add(new Failure(String.valueOf(e.getMessage()), ""));
        } catch (InterruptedException e) {
            failures.add(new Failure("the source's service ends", ""));
            Thread.currentThread().interrupt();
        }
    }

    private void suspend() throws CheckpointException {
        if (!suspended && job.hooks().suspend().isPresent()) {
            record.step(Step.SUSPEND);
            record.paused();
            suspended = true;
            JobHooks.run(job.hooks().suspend(), id, job, workDirectory, programs);
        }
    }

    @Override
    public void seal(String participant) {
        try {
            attempt.seal(placeOf(participant));
        } catch (IOException e) {
            failures.add(new Failure(String.valueOf(e.getMessage()), ""));
        } catch (InterruptedException e) {
            failures.add(new Failure("the source's service ends", ""));
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public boolean stopAttempt(int attemptNumber, String reason) {
        moving = false;
        return attempt == null || attempt.number() != attemptNumber || attempt.giveUp(reason);
    }

    @Override
    public Originals originals() {
        if (originals.whyNotAlive() != null) {
            return Originals.DEAD;
        }
        return originals.whyNotHeld() == null ? Originals.HELD : Originals.ALIVE;
    }

    @Override
    public String whyNotHeld() {
        String gone = originals.whyNotAlive();
        return String.valueOf(gone == null ? originals.whyNotHeld() : gone);
    }

    @Override
    public boolean endOriginals() {
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
        return endAbandonedHook() && abandoned.end();
    }

    private boolean endAbandonedHook() {
        hookAbandoned = hookAbandoned && !job.hooks().endAbandoned(workDirectory, programs);
        return !hookAbandoned;
    }

    @Override
    public boolean continueOriginals() {
        if (!endAbandoned()) {
            // A command that still works on an original would stop it again, or leave it broken.
            return false;
        }
        originals.release();
        record.resumed();
        return true;
    }

    @Override
    public void resume() {
        if (job.hooks().resume().isPresent() && (suspended || attempt == null)) {
            endAbandonedHook();
            try {
                JobHooks.run(job.hooks().resume(), id, job, workDirectory, programs);
            } catch (CheckpointException e) {
                LOG.error("migration {}: {}: the job may not communicate again by itself", id, e.getMessage());
            }
        }
    }

    @Override
    public void reconnect() {
        record.step(Step.RECONNECT);
        endAbandonedHook();
        try {
            JobHooks.reconnect(id, job, plan.map(job.others()), workDirectory, programs);
        } catch (IOException | CheckpointException e) {
            LOG.error("migration {}: {}: the job may not communicate again by itself", id, e.getMessage());
        }
        record.resumed();
    }

    /** Asks the site's command, on a thread of its own: it may take a minute. */
    @Override
    public boolean fence(String participant) {
        Optional<Fence> fence = settings.transaction().fence();
        String node = participant.substring(0, participant.lastIndexOf(':'));
        fence.ifPresent(command -> command.start(
                node, workDirectory, programs, () -> true, off -> fenced.add(new Fenced(participant, off))));
        return fence.isPresent();
    }

    @Override
    public void say(String text) {
        lastWords = text;
        LOG.error("migration {}: {}", id, text);
    }

    /** What was said loudly last. */
    String lastWords() {
        return lastWords;
    }

    @Override
    public void finished(Outcome outcome, String reason) {
        moving = false;
        MigrationReport.Outcome how = outcome == Outcome.COMMITTED
                ? MigrationReport.Outcome.COMMITTED
                : nextAttempts.refusedByAll() ? MigrationReport.Outcome.REFUSED : MigrationReport.Outcome.ROLLED_BACK;
        closeAttempt();
        record.step(Step.DONE);
        record.awaitCopy();
        report = record.report(how, nextAttempts.reason(reason));
    }

    private void closeAttempt() {
        if (attempt != null) {
            attempt.close();
            attempt = null;
        }
    }

    @Override
    public void close() {
        voices.close();
        closeAttempt();
        try {
            WorkDirectories.remove(workDirectory);
        } catch (IOException e) {
            LOG.warn("work directory {} stays behind: {}", workDirectory, e.getMessage());
        }
    }
}
