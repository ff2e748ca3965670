package io.ppmr.cluster.job;

import io.ppmr.cluster.job.EndNote.EndAct;
import io.ppmr.cluster.job.JobQuestion.MemberStep;
import io.ppmr.cluster.job.JobQuestion.StepReport;
import io.ppmr.cluster.job.JobReader.ReadRecord;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.part.MemberJobs;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.RareLog;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A source that ends the pods of a job over several nodes on its node, because the job's record orders a recovery. It
 * has a thread while one is under way. Safe for any thread.
 */
final class EndingMember {
    private static final Logger LOG = LoggerFactory.getLogger(EndingMember.class);
    private static final Duration STEP = Duration.ofMillis(200);
    private static final Duration END_LIMIT = Duration.ofSeconds(30);

    private final JobName job;
    private final String host;
    private final MemberJobs members;
    private final ActiveController controllers;
    private final MemberNotes notes;
    private final RareLog log = new RareLog(LOG::warn);
    private EndNote note;
    /** The newest record that was read. Guarded by this. */
    private ReadRecord latest;

    private Optional<Thread> ending = Optional.empty();
    private boolean isClosing;

    EndingMember(JobName job, String host, MemberJobs members, ActiveController controllers, MemberNotes notes)
            throws IOException {
        this.job = job;
        this.host = host;
        this.members = members;
        this.controllers = controllers;
        this.notes = notes;
        this.note = notes.end(job);
    }

    /** Receives the job's record, and ends the pods if it orders that. */
    synchronized void onRecord(ReadRecord read) {
        latest = read;
        notifyAll();
        if (ending.isEmpty() && !isClosing && note.next(read.record()) != EndAct.WAIT) {
            Thread thread = LogContext.thread(() -> run(read.record()), "ppmr-job-end");
            ending = Optional.of(thread);
            thread.start();
        }
    }

    /** Returns true while pods are being ended. */
    synchronized boolean isBusy() {
        return ending.isPresent();
    }

    /** The service ends. Pods that were not ended yet are ended by its next run. */
    void close() throws InterruptedException {
        Optional<Thread> thread;
        synchronized (this) {
            isClosing = true;
            thread = ending;
        }
        if (thread.isPresent()) {
            thread.get().interrupt();
            thread.get().join(END_LIMIT.toMillis());
        }
    }

    private synchronized boolean isOpen(JobRecord begun) {
        JobRecord now = latest.record();
        return now.phase() == JobPhase.ENDING
                && now.id().equals(begun.id())
                && now.numbers().restart() == begun.numbers().restart();
    }

    private synchronized void await(Duration limit) throws InterruptedException {
        TimeUnit.NANOSECONDS.timedWait(this, limit.toNanos());
    }

    private void run(JobRecord begun) {
        try (RepeatedReport report = new RepeatedReport(controllers)) {
            while (isOpen(begun) && !endPods(begun)) {
                await(STEP);
            }
            if (isOpen(begun)) {
                report.send(new StepReport(
                        job,
                        host,
                        MemberStep.ENDED,
                        begun.numbers().incarnation(),
                        begun.numbers().restart(),
                        null,
                        null,
                        null));
            }
            while (isOpen(begun)) {
                await(STEP);
            }
        } catch (InterruptedException e) {
            // The service ends.
            Thread.currentThread().interrupt();
        } finally {
            again();
        }
    }

    /** Ends the pods, and notes that. Returns false if that must be tried again. */
    private boolean endPods(JobRecord begun) {
        try {
            EndAct act = note.next(begun);
            if (act == EndAct.END) {
                if (!members.end(job)) {
                    return false;
                }
                write(note.ended(begun));
                LOG.info("job {}: the pods of this node were ended for a recovery", job);
            }
            return true;
        } catch (IOException | RuntimeException e) {
            log.write("end", "job " + job + ": pods are not ended yet: " + e.getMessage());
            return false;
        }
    }

    private synchronized void write(EndNote next) throws IOException {
        notes.writeEnd(job, next);
        note = next;
    }

    /** Notes the pods that the controllers have taken from here. */
    synchronized void registered(JobRecord record, Set<String> pods) throws IOException {
        boolean isNew = !note.pods().equals(pods)
                || (!pods.isEmpty() && note.layout() != record.numbers().layout());
        if (isNew && ending.isEmpty()) {
            write(note.registered(record, pods));
        }
    }

    /**
     * Ends pods of an older incarnation, if the record has them elsewhere.
     *
     * @param here the pods that run here
     * @param placed the pods that the record places here
     * @return true if there were some
     */
    boolean endStale(JobRecord record, Set<String> here, Set<String> placed) throws IOException {
        boolean isStale;
        synchronized (this) {
            isStale = ending.isEmpty() && note.isStale(record, here, placed);
        }
        if (isStale) {
            LOG.error(
                    "job {}: pods {} of this node are of an older incarnation, which counted as off with this node, and"
                            + " was not: they are ended. Remedy: check the fence command, and what was reported as off",
                    job,
                    here);
            members.end(job);
        }
        return isStale;
    }

    /** The record may have changed while this thread ended. */
    private synchronized void again() {
        ending = Optional.empty();
        if (!isClosing && latest != null) {
            onRecord(latest);
        }
    }
}
