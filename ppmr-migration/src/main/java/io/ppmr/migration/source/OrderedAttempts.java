package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.checkpoint.FrozenCgroups;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import io.ppmr.migration.node.Preparation;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.migration.source.PreCopyRounds.PreCopyState;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The attempts of a migration that was ordered in this run of the service. Each attempt begins again with a replacement
 * for a failed target. Owned by the migration's worker, except where {@link Attempts} allows any thread.
 */
final class OrderedAttempts implements Attempts {
    private static final Logger LOG = LoggerFactory.getLogger(OrderedAttempts.class);

    /** Receives an attempt's events for the migration, on the worker's thread. */
    interface AttemptEvents {
        /** The attempt failed. */
        void failed(int attempt, Attempt.Failure failure);

        /** Every rank for this participant is written, and held with these processes. */
        void imageComplete(int attempt, String participant, List<PlannedRank> held);

        /** The job is held from now on. */
        void paused();
    }

    /** The time for which an obstacle may pass that the last look at a computing job has found. */
    private static final Duration OBSTACLE_LIMIT = Duration.ofSeconds(30);

    private static final Duration OBSTACLE_LOOK = Duration.ofSeconds(2);

    private final Attempt.MigrationContext context;
    private final String id;
    private final SourceContext service;
    private final MigrationRecord record;
    private final OriginalRanks originals;
    private final HookRunner hooks;
    private final NextAttempts nextAttempts;
    private final Cancellation cancellation;
    private final Attempt.AttemptListener listener;
    private final AttemptEvents events;
    private volatile MigrationPlan plan;
    private volatile Optional<Attempt> attempt = Optional.empty();
    private Map<String, SourceSession> sessions = Map.of();
    private int number;
    /** Number of attempts that all targets accepted. */
    private int tries;

    private boolean moving;
    /** The job computes while its memory is copied. */
    private boolean precopying;
    /** The copy failed at this node. */
    private boolean copyFailed;
    /** The job computed while an attempt copied its memory, and was not inspected since. */
    private boolean hasComputed;
    /** An obstacle was found, and may pass until then. */
    private boolean isObstacleFound;

    private long obstacleEndNs;
    /** Another round follows at that time. */
    private boolean isRoundDue;

    private long nextRoundNs;

    private String chosenPages = "";

    private boolean suspended;
    private boolean isPauseReported;
    /** The processes that the job itself has stopped, as recorded in the journal. */
    private List<PlannedRank> stopped = List.of();

    /** @param listener listener for targets' messages, on other threads */
    OrderedAttempts(
            Attempt.MigrationContext context,
            MigrationPlan plan,
            NextAttempts nextAttempts,
            HookRunner hooks,
            Cancellation cancellation,
            Attempt.AttemptListener listener,
            AttemptEvents events) {
        this.context = context;
        this.id = context.migrationId();
        this.service = context.service();
        this.record = context.record();
        this.originals = context.originals();
        this.plan = plan;
        this.nextAttempts = nextAttempts;
        this.hooks = hooks;
        this.cancellation = cancellation;
        this.listener = listener;
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
            // A successful checkpoint of a failed attempt held them. No target has a copy.
            originals.release();
            record.resumed();
        }
        number = attemptNumber;
        precopying = false;
        copyFailed = false;
        plan = nextAttempts.taken(participants).orElse(plan);
        record.newAttempt();
        Attempt next = new Attempt(context, number, tries + 1, plan);
        attempt = Optional.of(next);
        record.step(SourceStep.CONNECT);
        Optional<Attempt.NotTaken> not = next.begin(cancellation, listener);
        if (not.isPresent()) {
            nextAttempts.notTaken(not.get());
            events.failed(
                    number,
                    new Attempt.Failure(
                            not.get().reason(), participant(not.get().place())));
            return;
        }
        tries++;
        Map<String, SourceSession> begun = new LinkedHashMap<>();
        for (int place = 0; place < plan.legs().size(); place++) {
            begun.put(participant(place), next.session(place));
        }
        sessions = Map.copyOf(begun);
        if (!record.pages().isEmpty()) {
            LOG.info("migration {}: the job's memory is sent {}", id, record.pages());
            service.note(new TransactionRecord.PagesChosen(id, number, record.pages()));
        }
        originals.findStoppedByJob();
        noteStopped();
        if (next.startPreCopy(originals.trees(), originals.enclosures(context.job()))) {
            record.step(SourceStep.PRECOPY);
            chosenPages = record.pages();
            record.setExpectedBytes(OriginalRanks.imageBytes(originals.trees()));
            precopying = true;
            hasComputed = true;
            isObstacleFound = false;
            isRoundDue = false;
            moving = true;
            return;
        }
        if (hasComputed && isUntouched()) {
            inspectAgain();
        }
        stopJob(next);
    }

    /** Begins to stop the job. Until now it has been unchanged. */
    private void stopJob(Attempt next) throws IOException, CheckpointException, InterruptedException {
        suspend();
        String gone = originals.whyNotAlive();
        if (gone != null && isUntouched()) {
            throw new CheckpointException(gone + ": they ended by themselves before any process was"
                    + " stopped. Nothing is moved, and the remaining ranks continue");
        }
        if (suspended && !originals.anyHeld()) {
            // This check follows the hook, because the hook may have removed an obstacle.
            originals.requireReachable(context.job());
            requireMovable();
        }
        record.step(SourceStep.CHECKPOINT);
        moving = true;
        nextAttempts.begun();
        Map<Integer, List<ProcessIdentity>> trees = originals.trees();
        record.setExpectedBytes(OriginalRanks.imageBytes(trees));
        Map<Integer, Enclosure> enclosures = originals.enclosures(context.job());
        originals.leave(context.job(), Optional.of(context.secret()));
        originals.detachAll();
        next.startCheckpoints(trees, enclosures);
    }

    @Override
    public Map<String, SourceSession> sessions() {
        return sessions;
    }

    private void suspend() throws CheckpointException {
        JobHooks jobHooks = context.job().hooks();
        if (!suspended && jobHooks.suspend().isPresent()) {
            record.step(SourceStep.SUSPEND);
            record.paused();
            reportPause();
            suspended = true;
            hooks.run(jobHooks.suspend());
        }
    }

    private void reportPause() {
        if (!isPauseReported && record.pausedNs() > 0) {
            isPauseReported = true;
            events.paused();
        }
    }

    @Override
    public boolean isDue() {
        return moving;
    }

    /** Handles checkpoints that ended, and writes that failed. */
    @Override
    public void work() {
        try {
            if (attempt.isPresent() && precopying) {
                checkPreCopy(attempt.get());
            } else if (attempt.isPresent()) {
                checkCheckpoints(attempt.get());
                requirePace(attempt.get());
            }
        } catch (IOException | CheckpointException e) {
            moving = false;
            // A checkpoint that was ended by the cancellation is no failure of its own.
            if (cancellation.reason().isEmpty()) {
                failed(e);
            }
        } catch (InterruptedException e) {
            moving = false;
            // The service ends. An undecided migration is rolled back; the service's next run continues a decided one.
            cancellation.cancel("the source's service ends");
        } catch (RuntimeException | Error e) {
            // This includes a node without free threads. The ranks are stopped, and continue because of this failure.
            moving = false;
            LOG.error("migration {}: a defect of this service; please report it: its checkpoints", id, e);
            events.failed(number, new Attempt.Failure("a defect of this service: its checkpoints: " + e, ""));
        }
    }

    private void failed(Exception cause) {
        // An attempt follows only the failure of a participant. Before the job is stopped it may be the same one.
        copyFailed = precopying;
        events.failed(
                number, new Attempt.Failure(String.valueOf(cause.getMessage()), precopying ? participant(0) : ""));
    }

    private void checkPreCopy(Attempt current) throws IOException, CheckpointException, InterruptedException {
        Optional<Attempt.Failure> failure = current.onWriteFailed();
        if (failure.isPresent()) {
            moving = false;
            events.failed(number, failure.get());
            return;
        }
        if (isRoundDue) {
            if (System.nanoTime() - nextRoundNs < 0) {
                return;
            }
            isRoundDue = false;
            current.copyAgain();
        }
        PreCopyState state = current.checkPreCopy();
        if (!state.words().isEmpty()) {
            record.pages(chosenPages + "; " + state.words());
        }
        if (state.isEnded() && !isObstructed(current)) {
            LOG.info("migration {}: the job's memory was copied while it ran: {}", id, state.words());
            service.note(new TransactionRecord.PagesChosen(id, number, record.pages()));
            stopJob(current);
        }
    }

    /** Inspects the job. An obstacle may pass, such as a command in a pod: then another round follows. */
    private boolean isObstructed(Attempt current) throws IOException, CheckpointException {
        boolean passes = false;
        try {
            inspectAgain();
        } catch (CheckpointException e) {
            long nowNs = System.nanoTime();
            obstacleEndNs = isObstacleFound ? obstacleEndNs : nowNs + OBSTACLE_LIMIT.toNanos();
            isObstacleFound = true;
            passes = current.mayCopyAgain() && nowNs - obstacleEndNs < 0;
            if (!passes) {
                throw e;
            }
            LOG.info("migration {}: the job is not stopped yet, and another round follows: {}", id, e.getMessage());
            isRoundDue = true;
            nextRoundNs = nowNs + OBSTACLE_LOOK.toNanos();
        } finally {
            // A failure of this inspection is no failure of the copy.
            precopying = passes;
            moving = passes;
            hasComputed = passes;
        }
        return passes;
    }

    /** Inspects the job once more, since it has computed for minutes. It is not stopped yet. */
    private void inspectAgain() throws IOException, CheckpointException {
        hasComputed = false;
        originals.findStoppedByJobAgain();
        noteStopped();
        originals.requireReachable(context.job());
        if (context.job().hooks().suspend().isEmpty()) {
            requireMovable();
        }
    }

    private void requireMovable() throws IOException, CheckpointException {
        originals.requireMovable(context.job(), service.settings(), new Preparation(() -> cancellation
                .reason()
                .isPresent()));
    }

    private void requirePace(Attempt current) {
        Optional<Attempt.Failure> failure = current.onWriteFailed()
                .or(() -> current.whyTooSlow().map(why -> {
                    record.noteSlow();
                    return new Attempt.Failure("job " + context.job().name() + ": " + why, "");
                }));
        failure.ifPresent(found -> {
            moving = false;
            events.failed(number, found);
        });
    }

    private void checkCheckpoints(Attempt current) throws IOException, CheckpointException, InterruptedException {
        List<Integer> complete = new ArrayList<>();
        try {
            current.checkCheckpoints(complete::add);
        } finally {
            reportPause();
        }
        if (complete.isEmpty()) {
            return;
        }
        noteStopped();
        if (current.isWritten()) {
            freeze();
        }
        for (int place : complete) {
            events.imageComplete(
                    number, participant(place), originals.planned(plan.legs().get(place)));
        }
    }

    /** Records the processes that the job itself has stopped, so that a restarted service leaves them stopped. */
    private void noteStopped() throws IOException {
        List<PlannedRank> now = originals.stopped(plan);
        if (!now.equals(stopped)) {
            service.journal().appendSynced(new TransactionRecord.JobStopped(id, number, now));
            stopped = now;
        }
    }

    /**
     * Freezes the cgroups of held ranks. No checkpointer works on the ranks now. The cgroups are recorded before they
     * are frozen.
     */
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
    public void stopChecking() {
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
        Optional<MigrationPlan> next = another && !copyFailed ? nextAttempts.plan(plan, place) : Optional.empty();
        if (next.isEmpty() && precopying && cancellation.reason().isEmpty() && originals.whyNotAlive() == null) {
            // The job has not been stopped. Its memory is streamed then.
            next = nextAttempts.again(plan);
        }
        next.ifPresent(found -> LOG.info("migration {}: {} take part next", id, found.addresses()));
        return next.map(MigrationPlan::addresses).orElse(List.of());
    }

    @Override
    public boolean isUntouched() {
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
    public MigrationReport.Outcome outcomeWithoutCommit() {
        return nextAttempts.noneBegun() && !suspended
                ? MigrationReport.Outcome.REFUSED
                : MigrationReport.Outcome.ROLLED_BACK;
    }

    @Override
    public String reason(String last) {
        return nextAttempts.reason(last);
    }

    @Override
    public Optional<KeptImageReport> copy() {
        return Optional.ofNullable(context.keeping().report());
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
