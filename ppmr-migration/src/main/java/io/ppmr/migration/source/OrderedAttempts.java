package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.FrozenCgroups;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import io.ppmr.migration.node.Preparation;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The attempts of a migration that was ordered in this run of the service: each begins again with a target in the place
 * of one that has failed. Owned by the migration's worker, except for what {@link Attempts} says of any thread.
 */
final class OrderedAttempts implements Attempts {
    private static final Logger LOG = LoggerFactory.getLogger(OrderedAttempts.class);

    /** Hears of an attempt what the migration has to know; on the worker's thread. */
    interface AttemptEvents {
        /** It fails. */
        void failed(int attempt, Attempt.Failure failure);

        /** Every rank that goes to this participant is written, and held as said here. */
        void imageComplete(int attempt, String participant, List<PlannedRank> held);

        /** The job is held from now on. */
        void paused();
    }

    private final Attempt.MigrationContext subject;
    private final String id;
    private final SourceContext service;
    private final MigrationRecord record;
    private final OriginalRanks originals;
    private final HookRunner hooks;
    private final NextAttempts nextAttempts;
    private final Cancellation cancellation;
    private final Attempt.AttemptListener heard;
    private final AttemptEvents events;
    private volatile MigrationPlan plan;
    private volatile Optional<Attempt> attempt = Optional.empty();
    private Map<String, SourceSession> sessions = Map.of();
    private int number;
    private boolean moving;
    private boolean suspended;
    private boolean pauseTold;
    /** The processes that the job itself has stopped, by the journal. */
    private List<PlannedRank> stopped = List.of();

    /** @param heard told what targets say, on other threads */
    OrderedAttempts(
            Attempt.MigrationContext subject,
            MigrationPlan plan,
            NextAttempts nextAttempts,
            HookRunner hooks,
            Cancellation cancellation,
            Attempt.AttemptListener heard,
            AttemptEvents events) {
        this.subject = subject;
        this.id = subject.migrationId();
        this.service = subject.service();
        this.record = subject.record();
        this.originals = subject.originals();
        this.plan = plan;
        this.nextAttempts = nextAttempts;
        this.hooks = hooks;
        this.cancellation = cancellation;
        this.heard = heard;
        this.events = events;
    }

    @Override
    public void begin(int attemptNumber, List<String> participants)
            throws IOException, CheckpointException, InterruptedException {
        close();
        sessions = Map.of();
        // Held ranks may be checkpointed again as they are.
        originals.thaw();
        if (originals.anyHeld() && !nextAttempts.checkpointsHeldRanks()) {
            // Held by a successful checkpoint of a failed attempt; no target has a copy.
            originals.release();
            record.resumed();
        }
        number = attemptNumber;
        plan = nextAttempts.taken(participants).orElse(plan);
        record.newAttempt();
        Attempt next = new Attempt(subject, number, plan);
        attempt = Optional.of(next);
        record.step(SourceStep.CONNECT);
        Optional<Attempt.NotTaken> not = next.begin(cancellation, heard);
        if (not.isPresent()) {
            nextAttempts.notTaken(not.get());
            events.failed(
                    number,
                    new Attempt.Failure(
                            not.get().reason(), participant(not.get().place())));
            return;
        }
        Map<String, SourceSession> begun = new LinkedHashMap<>();
        for (int place = 0; place < plan.legs().size(); place++) {
            begun.put(participant(place), next.session(place));
        }
        sessions = Map.copyOf(begun);
        if (!record.pages().isEmpty()) {
            LOG.info("migration {}: the job's memory travels {}", id, record.pages());
            service.note(new TransactionRecord.PagesChosen(id, number, record.pages()));
        }
        originals.lookForStopped();
        noteStopped();
        suspend();
        String gone = originals.whyNotAlive();
        if (gone != null && untouched()) {
            throw new CheckpointException(gone + ": they have ended by themselves before anything was"
                    + " stopped. Nothing is moved, and what is left of the job continues");
        }
        if (suspended && !originals.anyHeld()) {
            // The hook may have taken away what stands in the way, so it is asked only now.
            originals.requireReachable(subject.job());
            originals.requireMovable(subject.job(), service.settings(), new Preparation(() -> cancellation
                    .reason()
                    .isPresent()));
        }
        record.step(SourceStep.CHECKPOINT);
        moving = true;
        nextAttempts.begun();
        Map<Integer, List<ProcessIdentity>> trees = originals.trees();
        record.expects(OriginalRanks.imageBytes(trees));
        next.startCheckpoints(trees, originals.detach(subject.job(), subject.secret()));
    }

    @Override
    public Map<String, SourceSession> sessions() {
        return sessions;
    }

    private void suspend() throws CheckpointException {
        JobHooks jobHooks = subject.job().hooks();
        if (!suspended && jobHooks.suspend().isPresent()) {
            record.step(SourceStep.SUSPEND);
            record.paused();
            tellPause();
            suspended = true;
            hooks.run(jobHooks.suspend());
        }
    }

    private void tellPause() {
        if (!pauseTold && record.pausedNs() > 0) {
            pauseTold = true;
            events.paused();
        }
    }

    @Override
    public boolean areDue() {
        return moving;
    }

    /** Takes notice of checkpoints that have ended, and of writes that have failed. */
    @Override
    public void work() {
        try {
            if (attempt.isPresent()) {
                lookAtCheckpoints(attempt.get());
                requirePace(attempt.get());
            }
        } catch (IOException | CheckpointException e) {
            moving = false;
            // What was broken off since the migration is called off is no failure of its own.
            if (cancellation.reason().isEmpty()) {
                events.failed(number, new Attempt.Failure(String.valueOf(e.getMessage()), ""));
            }
        } catch (InterruptedException e) {
            moving = false;
            // The service ends: what is not decided is rolled back; what is decided is carried on by the next one.
            cancellation.cancel("the source's service ends");
        } catch (RuntimeException | Error e) {
            // Also where the node has no threads left: the ranks are stopped, and continue by this failure.
            moving = false;
            LOG.error("migration {}: a defect of this service; please report it: its checkpoints", id, e);
            events.failed(number, new Attempt.Failure("a defect of this service: its checkpoints: " + e, ""));
        }
    }

    private void requirePace(Attempt current) {
        Optional<Attempt.Failure> failure = current.onWriteFailed()
                .or(() -> current.tooSlow().map(why -> {
                    record.slow();
                    return new Attempt.Failure("job " + subject.job().name() + ": " + why, "");
                }));
        failure.ifPresent(found -> {
            moving = false;
            events.failed(number, found);
        });
    }

    private void lookAtCheckpoints(Attempt current) throws IOException, CheckpointException, InterruptedException {
        List<Integer> complete = new ArrayList<>();
        try {
            current.work(complete::add);
        } finally {
            tellPause();
        }
        if (complete.isEmpty()) {
            return;
        }
        noteStopped();
        if (current.written()) {
            freeze();
        }
        for (int place : complete) {
            events.imageComplete(
                    number, participant(place), originals.planned(plan.legs().get(place)));
        }
    }

    /** Writes down which processes the job itself has stopped, so that a restarted service leaves them so. */
    private void noteStopped() throws IOException {
        List<PlannedRank> now = originals.stopped(plan);
        if (!now.equals(stopped)) {
            service.journal().appendSynced(new TransactionRecord.JobStopped(id, number, now));
            stopped = now;
        }
    }

    /** Is called when no checkpointer works on the ranks. The cgroups are recorded before they are frozen. */
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

    @Override
    public void seal(String participant) throws IOException, InterruptedException {
        if (attempt.isPresent()) {
            attempt.get().seal(placeOf(participant));
        }
    }

    @Override
    public void rest() {
        moving = false;
    }

    @Override
    public boolean giveUp(int attemptNumber, String reason) {
        moving = false;
        return attempt.filter(current -> current.number() == attemptNumber)
                .map(current -> current.giveUp(reason))
                .orElse(true);
    }

    @Override
    public List<String> next(String participant) {
        int place = placeOf(participant);
        boolean another = originals.whyNotAlive() == null
                && nextAttempts.mayFollow(place, record.pausedNs(), originals.anyHeld());
        Optional<MigrationPlan> next = another ? nextAttempts.plan(plan, place) : Optional.empty();
        next.ifPresent(found -> LOG.info("migration {}: {} take part next", id, found.addresses()));
        return next.map(MigrationPlan::addresses).orElse(List.of());
    }

    @Override
    public boolean untouched() {
        return nextAttempts.noneBegun();
    }

    @Override
    public boolean hasSuspended() {
        return suspended || attempt.isEmpty();
    }

    @Override
    public void close() {
        Optional<Attempt> last = attempt;
        attempt = Optional.empty();
        last.ifPresent(Attempt::close);
    }

    @Override
    public MigrationReport.Outcome notMoved() {
        return nextAttempts.refusedByAll() ? MigrationReport.Outcome.REFUSED : MigrationReport.Outcome.ROLLED_BACK;
    }

    @Override
    public String reason(String last) {
        return nextAttempts.reason(last);
    }

    @Override
    public Optional<KeptImageReport> copy() {
        return Optional.ofNullable(subject.keeping().report());
    }

    @Override
    public MigrationPlan plan() {
        return plan;
    }

    @Override
    public Optional<String> waitsFor() {
        return attempt.flatMap(Attempt::waitsFor);
    }

    @Override
    public boolean responds(long limitNs) {
        return attempt.map(current -> current.responds(limitNs)).orElse(true);
    }
}
