package io.ppmr.cluster.job;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.cluster.job.JobQuestion.MemberStep;
import io.ppmr.cluster.job.JobQuestion.StepReport;
import io.ppmr.cluster.job.JobReader.ReadRecord;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.MemberNote.CheckpointStep;
import io.ppmr.cluster.job.MemberRules.SourceAct;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.part.MemberJobs.MemberJob;
import io.ppmr.daemon.part.NodeJobs;
import io.ppmr.linux.LogContext;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.JobCheckpoint;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A source with pods of a job over several nodes. It follows the job's record, and has a thread while a checkpoint is
 * under way. Safe for any thread.
 */
final class SourceMember {
    private static final Logger LOG = LoggerFactory.getLogger(SourceMember.class);
    private static final Duration STEP = Duration.ofMillis(100);
    /** A controller may need some seconds for an answer, or for the place of another one. */
    private static final int QUESTIONS = 5;

    private static final Duration AGAIN = Duration.ofSeconds(1);
    private static final Duration END_LIMIT = Duration.ofSeconds(60);

    private final JobName job;
    private final String host;
    private final NodeJobs.Checkpoints checkpoints;
    private final ActiveController controllers;
    private final MemberNotes notes;
    private MemberNote note;
    /** The newest record that was read. Guarded by this. */
    private ReadRecord latest;

    /** The pods of the last call. Guarded by this. */
    private MemberJob here;

    private Optional<Thread> round = Optional.empty();
    /** True while a round may hold pods. Guarded by this. */
    private boolean isHolding;

    private boolean isEnding;

    /** Makes a member. A round that an earlier run of the service has begun is void. */
    SourceMember(
            JobName job, String host, NodeJobs.Checkpoints checkpoints, ActiveController controllers, MemberNotes notes)
            throws IOException {
        this.job = job;
        this.host = host;
        this.checkpoints = checkpoints;
        this.controllers = controllers;
        this.notes = notes;
        this.note = notes.read(job);
        if (note.step() == CheckpointStep.HOLDING) {
            note = note.to(CheckpointStep.VOID);
            notes.write(job, note);
        }
    }

    /** Receives the job's record, and begins a checkpoint if the record orders one. */
    synchronized void onRecord(ReadRecord read, MemberJob now) {
        latest = read;
        here = now;
        notifyAll();
        boolean isDue = MemberRules.source(note, read.record(), read.version()) == SourceAct.HOLD
                && (!here.pods().isEmpty() || hasUnrecordedMove());
        if (round.isEmpty() && !isEnding && (isDue || isFromBefore(read.record()))) {
            Thread thread = LogContext.thread(() -> run(read), "ppmr-job-checkpoint");
            round = Optional.of(thread);
            isHolding = true;
            thread.start();
        }
    }

    /** Returns true if the round must be refused here, even if no pod of the job is left. */
    private boolean hasUnrecordedMove() {
        try {
            return notes.move(job).isPresent();
        } catch (IOException e) {
            // The round is refused by this error.
            LOG.debug("job {}: a note cannot be read", job, e);
            return true;
        }
    }

    /** Throws if pods were moved, or are being moved, without a record of it. */
    private void requireNoUnrecordedMove() throws IOException, RequestException {
        Optional<MoveNote> move = notes.move(job);
        if (move.isPresent()) {
            throw new RequestException("pods were moved to " + move.get().to()
                    + ", not recorded. Remedy: wait until ppmr job show names their node");
        }
    }

    /** Returns true if an earlier run of this service took part in the present round, which is void by that. */
    private boolean isFromBefore(JobRecord record) {
        return record.phase() == JobPhase.CHECKPOINT
                && record.id().equals(note.id())
                && record.numbers().round() == note.round()
                && note.step() != CheckpointStep.NONE;
    }

    /** Returns true if the job has a set, as far as this source knows. */
    synchronized boolean hasSet() {
        return note.step() == CheckpointStep.IMAGED
                || latest == null
                || latest.record().last().outcome() == RoundOutcome.CHECKPOINTED
                || latest.record().numbers().restart() > 0
                || latest.record().numbers().round() > 0;
    }

    /** Returns true while a checkpoint is under way here. */
    synchronized boolean isBusy() {
        return round.isPresent();
    }

    /** Returns true while a checkpoint holds pods here, or may. Afterwards it only reports. */
    synchronized boolean isHolding() {
        return isHolding;
    }

    /** Returns the newest record that was read, if there is one. */
    synchronized Optional<JobRecord> newest() {
        return Optional.ofNullable(latest).map(ReadRecord::record);
    }

    private synchronized void noteNotHolding() {
        isHolding = false;
    }

    /** Gives the present checkpoint up, and waits until the pods run. */
    void end() throws InterruptedException {
        Optional<Thread> thread;
        synchronized (this) {
            isEnding = true;
            thread = round;
        }
        if (thread.isPresent()) {
            thread.get().interrupt();
            thread.get().join(END_LIMIT.toMillis());
        }
    }

    private synchronized Optional<Path> directory() {
        return here.checkpoints();
    }

    private synchronized ReadRecord latest() {
        return latest;
    }

    private boolean isOpen(ReadRecord begun) {
        JobRecord now = latest().record();
        return now.phase() == JobPhase.CHECKPOINT
                && now.id().equals(begun.record().id())
                && now.numbers().round() == begun.record().numbers().round();
    }

    private void run(ReadRecord begun) {
        try (RepeatedReport report = new RepeatedReport(controllers)) {
            try {
                checkpoint(begun, report);
            } finally {
                noteNotHolding();
            }
            // Reports are repeated until the record has changed, so that a new controller receives them, too.
            while (isOpen(begun)) {
                await(STEP);
            }
        } catch (InterruptedException e) {
            // The service ends; the checkpoint became void.
            Thread.currentThread().interrupt();
        } catch (IOException | RuntimeException e) {
            LOG.error("job {}: the checkpoint of this node failed: {}", job, e.getMessage(), e);
        } finally {
            again();
        }
    }

    /** The record may have changed while this round's thread ended. */
    private synchronized void again() {
        round = Optional.empty();
        if (!isEnding && latest != null && here != null) {
            onRecord(latest, here);
        }
    }

    private synchronized void await(Duration limit) throws InterruptedException {
        TimeUnit.NANOSECONDS.timedWait(this, limit.toNanos());
    }

    private void checkpoint(ReadRecord begun, RepeatedReport report) throws IOException, InterruptedException {
        JobRecord record = begun.record();
        if (isFromBefore(record)) {
            reportVoid(record, RoundOutcome.VOID, "the source's service ended in the checkpoint", report);
            return;
        }
        Optional<JobCheckpoint> looked = look(begun, report);
        if (looked.isEmpty()) {
            return;
        }
        try (JobCheckpoint checkpoint = looked.get()) {
            ReadRecord now = latest();
            if (MemberRules.source(note, now.record(), now.version()) != SourceAct.HOLD || !isOpen(begun)) {
                return;
            }
            write(note.checkpoint(record, now.version(), CheckpointStep.HOLDING));
            Optional<String> failure = hold(begun, checkpoint, report);
            if (failure.isPresent()) {
                giveUp(checkpoint, record, RoundOutcome.VOID, failure.get(), report);
                return;
            }
            checkpoint.resume();
            writeImages(begun, checkpoint, report);
        }
    }

    private void writeImages(ReadRecord begun, JobCheckpoint checkpoint, RepeatedReport report)
            throws IOException, InterruptedException {
        JobRecord record = begun.record();
        try {
            checkpoint.noteResumed();
            // Migrations of the pods may begin while their images are written.
            noteNotHolding();
            JobCheckpoint.ImagesWritten written = checkpoint.write(
                    () -> !isOpen(begun) || Thread.currentThread().isInterrupted());
            write(note.to(CheckpointStep.IMAGED));
            LOG.info(
                    "job {}: the pods of this node are checkpointed: held {} ms, {} bytes",
                    job,
                    written.heldMs(),
                    written.bytes());
            report.send(new StepReport(
                    job,
                    host,
                    MemberStep.IMAGE,
                    record.numbers().incarnation(),
                    record.numbers().round(),
                    null,
                    null,
                    new NodeImages(
                            written.digests(), written.bytes(), written.heldMs(), written.dumpMs(), written.syncMs())));
        } catch (IOException e) {
            giveUp(checkpoint, record, RoundOutcome.VOID, "the images cannot be written: " + e.getMessage(), report);
        }
    }

    private Optional<JobCheckpoint> look(ReadRecord begun, RepeatedReport report)
            throws IOException, InterruptedException {
        JobRecord record = begun.record();
        JobCheckpoint checkpoint = null;
        try {
            requireNoUnrecordedMove();
            Optional<Path> directory = directory();
            if (directory.isEmpty()) {
                throw new RequestException("the template of the pods names no checkpoints, or those of several pods"
                        + " name different ones. Remedy: the operator writes checkpoints = \"DIRECTORY\" there");
            }
            checkpoint = checkpoints.of(
                    job,
                    new JobCheckpoint.CheckpointOrder(
                            record.set(), record.numbers().incarnation(), directory.get()));
            checkpoint.look(
                    () -> !isOpen(begun) || Thread.currentThread().isInterrupted(), peers -> foreign(begun, peers));
            return Optional.of(checkpoint);
        } catch (InterruptedException e) {
            // The service ends, and no pod was touched.
            checkpoint.close();
            throw e;
        } catch (IOException | CheckpointException | RequestException | RuntimeException e) {
            if (checkpoint != null) {
                checkpoint.close();
            }
            write(note.checkpoint(record, begun.version(), CheckpointStep.VOID));
            LOG.warn("job {}: the checkpoint is refused here: {}", job, e.getMessage());
            reportVoid(record, RoundOutcome.REFUSED, String.valueOf(e.getMessage()), report);
            return Optional.empty();
        }
    }

    /**
     * Queries the active controller which addresses belong to no pod of the job. A controller may need some seconds to
     * find out, or be replaced in that time, so a failed question is repeated.
     */
    private Set<String> foreign(ReadRecord begun, Set<String> peers)
            throws IOException, RequestException, InterruptedException {
        Set<String> foreign = new TreeSet<>();
        List<String> all = List.copyOf(new TreeSet<>(peers));
        for (int from = 0; from < all.size() && foreign.isEmpty(); from += JobQuestion.FindForeign.MOST_ADDRESSES) {
            int end = Math.min(all.size(), from + JobQuestion.FindForeign.MOST_ADDRESSES);
            foreign.addAll(askForeign(begun, new TreeSet<>(all.subList(from, end))));
        }
        return foreign;
    }

    private Set<String> askForeign(ReadRecord begun, Set<String> peers)
            throws IOException, RequestException, InterruptedException {
        JobQuestion question =
                new JobQuestion.FindForeign(job, begun.record().numbers().round(), peers);
        for (int tries = 1; ; tries++) {
            try {
                JobQuestion.Answer answer = controllers.ask(question);
                if (answer.refusal() != null) {
                    throw new RequestException(answer.refusal());
                }
                return answer.pods() == null ? Set.of() : answer.pods().keySet();
            } catch (IOException e) {
                if (tries == QUESTIONS || !isOpen(begun)) {
                    throw new IOException(
                            "it is unknown if the connections of the pods stay in the job: " + e.getMessage(), e);
                }
                await(AGAIN);
            }
        }
    }

    /** Holds the pods until GO was read and all are dumped. Returns why the round is void, if it is. */
    private Optional<String> hold(ReadRecord begun, JobCheckpoint checkpoint, RepeatedReport report)
            throws InterruptedException {
        JobRecord record = begun.record();
        try {
            requireNoUnrecordedMove();
            checkpoint.hold();
            long limitNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(record.holdSeconds());
            report.send(new StepReport(
                    job,
                    host,
                    MemberStep.OUT,
                    record.numbers().incarnation(),
                    record.numbers().round(),
                    null,
                    null,
                    null));
            boolean isDumped = false;
            boolean isNoted = false;
            while (true) {
                ReadRecord now = latest();
                SourceAct act = MemberRules.source(note, now.record(), now.version());
                boolean isGo = act == SourceAct.RESUME;
                if (act == SourceAct.GIVE_UP) {
                    return Optional.of("the controllers gave the checkpoint up");
                }
                if (isGo && !isNoted) {
                    // GO is noted before the cables go in. While the dumps run that takes no time of the hold; after
                    // them it would wait for the disk, which has the images to write.
                    write(note.checkpoint(record, now.version(), CheckpointStep.HOLDING));
                    isNoted = true;
                }
                if (isGo && isDumped) {
                    return Optional.empty();
                }
                if (!isGo) {
                    requireNoUnrecordedMove();
                }
                if (!isGo && System.nanoTime() - limitNs >= 0) {
                    return Optional.of("not all members were held within " + record.holdSeconds()
                            + " s (hold_limit), so the pods of this node continue");
                }
                if (isDumped) {
                    await(STEP);
                } else {
                    isDumped = checkpoint.isDumped();
                }
            }
        } catch (IOException | CheckpointException | RequestException | RuntimeException e) {
            return Optional.of(String.valueOf(e.getMessage()));
        } catch (InterruptedException e) {
            // The service ends. The pods continue before it does.
            giveUpAtTheEnd(checkpoint);
            throw e;
        }
    }

    /** A note that is HOLDING when the service begins counts as void, so the pods may continue without one. */
    private void giveUpAtTheEnd(JobCheckpoint checkpoint) {
        try {
            write(note.to(CheckpointStep.VOID));
        } catch (IOException e) {
            LOG.warn("job {}: {}", job, e.getMessage());
        }
        checkpoint.resume();
        Thread.currentThread().interrupt();
    }

    /** The round is void: that is noted before the cables go in. */
    private void giveUp(
            JobCheckpoint checkpoint, JobRecord record, RoundOutcome outcome, String reason, RepeatedReport report)
            throws IOException {
        // A write of an interrupted thread fails, and the pods must continue.
        boolean isInterrupted = Thread.interrupted();
        try {
            write(note.to(CheckpointStep.VOID));
            checkpoint.resume();
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
        LOG.warn("job {}: the checkpoint is void: {}", job, reason);
        reportVoid(record, outcome, reason, report);
    }

    private void reportVoid(JobRecord record, RoundOutcome outcome, String reason, RepeatedReport report) {
        report.send(new StepReport(
                job,
                host,
                MemberStep.VOID,
                record.numbers().incarnation(),
                record.numbers().round(),
                outcome,
                reason,
                null));
    }

    private void write(MemberNote next) throws IOException {
        notes.write(job, next);
        synchronized (this) {
            note = next;
        }
    }
}
