package io.ppmr.cluster.job;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.cluster.job.JobQuestion.MemberStep;
import io.ppmr.cluster.job.JobQuestion.StepReport;
import io.ppmr.cluster.job.JobReader.ReadRecord;
import io.ppmr.cluster.job.MemberNote.RestartStep;
import io.ppmr.cluster.job.MemberRules.TargetAct;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.linux.LogContext;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.target.JobRestart;
import io.ppmr.migration.target.JobRestarts;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A target that restores pods of a job over several nodes. It follows the job's record, and has a thread while a
 * restart is under way. Safe for any thread.
 */
final class TargetMember {
    private static final Logger LOG = LoggerFactory.getLogger(TargetMember.class);
    private static final Duration STEP = Duration.ofMillis(200);
    private static final Duration END_LIMIT = Duration.ofSeconds(60);
    private static final int TRIES = 3;
    private static final long RELEASE_AGAIN_NS = TimeUnit.SECONDS.toNanos(1);

    private final JobName job;
    private final String host;
    private final JobRestarts restarts;
    private final ActiveController controllers;
    private final MemberNotes notes;
    private MemberNote note;
    /** The newest record that was read. Guarded by this. */
    private ReadRecord latest;

    private PodsHere pods = new PodsHere(Set.of(), List.of());
    /** The restart that failed here, which is not tried again. */
    private long failed;

    private Optional<Thread> round = Optional.empty();
    /** True while pods are restored here that are not released. Guarded by this. */
    private boolean isRestoring;

    private boolean isEnding;

    /**
     * The pods that the plan of a restart names for this node.
     *
     * @param names their names
     * @param directories the directories that may have their images, the nearest first
     */
    record PodsHere(Set<String> names, List<Path> directories) {}

    /**
     * Makes a member. The service ended copies that an earlier run has held, and has repeated the release of those
     * that it had released.
     */
    TargetMember(JobName job, String host, JobRestarts restarts, ActiveController controllers, MemberNotes notes)
            throws IOException {
        this.job = job;
        this.host = host;
        this.restarts = restarts;
        this.controllers = controllers;
        this.notes = notes;
        this.note = notes.read(job);
        if (note.restartStep() == RestartStep.HELD) {
            // Copies that were held are ended by now. By the note they are restored once more, if the record wants
            // that.
            if (restarts.isReleased(moveOf(note.restart()))) {
                write(note.to(RestartStep.RELEASED));
            }
        }
        restarts.forget(moveOf(note.restart()));
    }

    private String moveOf(long number) {
        return JobRestart.moveOf(job.uid(), job.name(), number);
    }

    /** Receives the job's record, and follows it. */
    synchronized void onRecord(ReadRecord read, PodsHere named) {
        latest = read;
        pods = named;
        notifyAll();
        if (round.isPresent() || isEnding) {
            return;
        }
        TargetAct act = MemberRules.target(
                note, read.record(), read.version(), !named.names().isEmpty(), false);
        boolean isFailed = failed == read.record().numbers().restart();
        if (act == TargetAct.END_COPIES) {
            forgetHeld();
        } else if ((act == TargetAct.RESTORE && !isFailed) || act == TargetAct.REPORT_RELEASED) {
            Thread thread = LogContext.thread(() -> run(act, read), "ppmr-job-restart");
            round = Optional.of(thread);
            isRestoring = act == TargetAct.RESTORE;
            thread.start();
        }
    }

    /** An earlier run of the service has held them, and its end ended them. */
    private void forgetHeld() {
        try {
            note = note.to(RestartStep.NONE);
            notes.write(job, note);
        } catch (IOException e) {
            LOG.warn("job {}: {}", job, e.getMessage());
        }
    }

    /** Returns true while a restart is under way here. */
    synchronized boolean isBusy() {
        return round.isPresent();
    }

    /** Returns true while pods are restored here that may be released yet. */
    synchronized boolean isRestoring() {
        return isRestoring;
    }

    private synchronized void noteNotRestoring() {
        isRestoring = false;
    }

    /** Ends copies that are not released. */
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

    private synchronized ReadRecord latest() {
        return latest;
    }

    private synchronized void await(Duration limit) throws InterruptedException {
        TimeUnit.NANOSECONDS.timedWait(this, limit.toNanos());
    }

    private boolean isOpen(ReadRecord begun) {
        JobRecord now = latest().record();
        return (now.phase() == JobPhase.RESTARTING || now.phase() == JobPhase.RELEASING)
                && now.id().equals(begun.record().id())
                && now.numbers().restart() == begun.record().numbers().restart();
    }

    private void run(TargetAct act, ReadRecord begun) {
        try (RepeatedReport report = new RepeatedReport(controllers)) {
            if (act == TargetAct.RESTORE) {
                try {
                    restoreOrRepeat(begun, report);
                } finally {
                    noteNotRestoring();
                }
            } else {
                report(begun, MemberStep.RELEASED, null, report);
            }
            while (isOpen(begun)) {
                await(STEP);
            }
        } catch (InterruptedException e) {
            // The service ends. Copies that were not released are ended.
            Thread.currentThread().interrupt();
        } catch (IOException | RuntimeException e) {
            LOG.error("job {}: the restart of this node failed: {}", job, e.getMessage(), e);
        } finally {
            again();
        }
    }

    /**
     * Restores the pods. A failure before RELEASE ends the restart of the whole job. After RELEASE other nodes run, so
     * this node's pods, which never ran, are restored once more.
     */
    private void restoreOrRepeat(ReadRecord begun, RepeatedReport report) throws IOException, InterruptedException {
        boolean isDone = restore(begun, report);
        int tries = 1;
        while (!isDone && isOpen(begun)) {
            if (latest().record().phase() != JobPhase.RELEASING) {
                // The controller may have written RELEASING before it received the failure.
                await(STEP);
            } else if (tries < TRIES) {
                isDone = restore(begun, report);
                tries++;
            } else {
                // Only a new restart brings them back: this one must not keep it from its beginning.
                LOG.error(
                        "job {}: the pods of this node are lost, since they cannot be restored, and the others run."
                                + " Remedy: stop the job, and restart it once more (ppmr job restart)",
                        job);
                failed = begun.record().numbers().restart();
                write(note.to(RestartStep.NONE));
                return;
            }
        }
    }

    /** The record may have changed while this restart's thread ended. */
    private synchronized void again() {
        round = Optional.empty();
        if (!isEnding && latest != null) {
            onRecord(latest, pods);
        }
    }

    private boolean restore(ReadRecord begun, RepeatedReport report) throws IOException, InterruptedException {
        PodsHere here;
        synchronized (this) {
            here = pods;
        }
        JobRecord record = begun.record();
        JobRestart restart = restarts.of(new JobRestart.RestartOrder(
                job.uid(), job.name(), record.set(), record.numbers().restart(), here.names(), here.directories()));
        boolean isReleased = false;
        try {
            restart.judge();
            restart.restore(() -> !isOpen(begun));
            restart.requireHeld();
            write(note.restart(record, latest().version(), RestartStep.HELD));
            report(begun, MemberStep.HELD, null, report);
            isReleased = awaitRelease(begun, restart, report);
        } catch (IOException | CheckpointException | RequestException e) {
            failed = record.numbers().restart();
            LOG.warn("job {}: the restart failed here: {}", job, e.getMessage());
            report(begun, MemberStep.FAILED, String.valueOf(e.getMessage()), report);
        } finally {
            if (!isReleased && !restart.mayBeReleased()) {
                endCopies(restart);
            }
        }
        return isReleased || restart.mayBeReleased();
    }

    /** Holds the copies until the record releases them. Returns false if they must end. */
    private boolean awaitRelease(ReadRecord begun, JobRestart restart, RepeatedReport report)
            throws IOException, CheckpointException, InterruptedException {
        while (true) {
            ReadRecord now = latest();
            TargetAct act = MemberRules.target(note, now.record(), now.version(), true, true);
            if (act == TargetAct.RELEASE) {
                restart.requireHeld();
                release(now, restart);
                report(begun, MemberStep.RELEASED, null, report);
                LOG.info(
                        "job {}: the pods of this node run again, from set {}",
                        job,
                        begun.record().set());
                return true;
            }
            if (act == TargetAct.END_COPIES) {
                return false;
            }
            restart.requireHeld();
            await(STEP);
        }
    }

    /**
     * Releases the pods. From the service's own note on nothing ends them, so a failure is repeated until it succeeds.
     * If the service ends before that, its next run repeats the release by that note.
     */
    private void release(ReadRecord now, JobRestart restart) throws InterruptedException {
        boolean isInterrupted = false;
        boolean isDone = false;
        while (!isDone && !isInterrupted) {
            isInterrupted |= Thread.interrupted();
            try {
                restart.release();
                write(note.restart(now.record(), now.version(), RestartStep.RELEASED));
                restarts.forget(moveOf(now.record().numbers().restart()));
                isDone = true;
            } catch (IOException e) {
                LOG.error("job {}: pods are not released yet: {}", job, e.getMessage());
                LockSupport.parkNanos(RELEASE_AGAIN_NS);
            }
        }
        if (isInterrupted) {
            throw new InterruptedException("the service ends");
        }
    }

    /**
     * Ends copies that never ran. A note that they were held stays: as long as the record counts them as held, they are
     * restored once more. It goes when the restart is over by the record.
     */
    private void endCopies(JobRestart restart) throws IOException {
        boolean isInterrupted = Thread.interrupted();
        try {
            long endNs = System.nanoTime() + END_LIMIT.toNanos();
            boolean isEnded = false;
            while (!isEnded) {
                try {
                    restart.end();
                    isEnded = true;
                } catch (IOException e) {
                    // A process may wait for a filesystem.
                    if (System.nanoTime() - endNs > 0) {
                        throw e;
                    }
                    LOG.warn("job {}: copies that never ran are not ended yet: {}", job, e.getMessage());
                    LockSupport.parkNanos(RELEASE_AGAIN_NS);
                }
            }
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void report(ReadRecord begun, MemberStep step, String reason, RepeatedReport report) {
        report.send(new StepReport(
                job,
                host,
                step,
                begun.record().numbers().incarnation(),
                begun.record().numbers().restart(),
                null,
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
