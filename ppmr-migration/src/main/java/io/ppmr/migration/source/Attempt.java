package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.PreCopy;
import io.ppmr.checkpoint.RankCommand;
import io.ppmr.checkpoint.RankCommands;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.migration.source.PreCopyRounds.PreCopyState;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.protocol.data.MemoryWay;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.source.image.ImageName;
import io.ppmr.source.image.WriterActivity;
import io.ppmr.transport.SessionEvent;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.IntConsumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One try to send the images of all ranks to the targets. It has a session for each target and a checkpoint for each
 * rank, all at once (paper 1, section IV). It decides nothing. Messages and results of checkpoints go to the migration,
 * whose worker owns it.
 */
final class Attempt {
    private static final Logger LOG = LoggerFactory.getLogger(Attempt.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);
    private static final long RELEASE_WAIT_S = 20;
    /** Time for a target to report the reason of a failed write. After that, the write's own error is the reason. */
    private static final long REASON_WAIT_NS = TimeUnit.SECONDS.toNanos(2);

    /** Bytes that could be written while a command starts and ends. Many small ranks write little. */
    private static final long COMMAND_BYTES = 64 << 10;

    private static final long REPORT_NS = TimeUnit.SECONDS.toNanos(10);

    /**
     * A message from a participant, or its loss.
     *
     * @param attempt its attempt; a later attempt may have another participant in the same place
     */
    record InboxEvent(int attempt, String participant, SessionEvent event) {}

    /** Receives events of participants, on other threads. */
    @FunctionalInterface
    interface AttemptListener {
        /**
         * Handles an event.
         *
         * @throws ProtocolException if the participant sends too much. Its connection ends then.
         */
        void onEvent(InboxEvent event) throws ProtocolException;
    }

    /**
     * The failure of an attempt.
     *
     * @param participant participant that failed, or empty if none did
     */
    record Failure(String reason, String participant) {}

    /** A participant declined its ranks. The originals are unchanged in this attempt. */
    record NotTaken(int place, String reason) {}

    /**
     * The job that a migration's attempts move, and its records.
     *
     * @param secret the migration's secret, which is in the journal already
     * @param service the parts of the service
     * @param job job of the ranks
     * @param pages how its memory is sent, with the facts of each rank
     * @param record record of the migration
     * @param originals the ranks' processes
     * @param keeping the copy, if one is requested
     */
    record MigrationContext(
            String migrationId,
            MigrationSecret secret,
            SourceContext service,
            Job job,
            PageChoice pages,
            MigrationRecord record,
            OriginalRanks originals,
            Keeping keeping) {}

    private final int number;
    private final int tries;
    private final MigrationPlan plan;
    private final Job job;
    private final SourceSettings settings;
    private final MigrationRecord record;
    private final SourceMetrics metrics;
    private final PageChoice choice;
    private final OriginalRanks originals;
    private final Keeping keeping;
    private final Path workRoot;
    private final List<SourceSession> sessions = new ArrayList<>();
    private final RankCommands checkpoints = new RankCommands("checkpoint");
    /** Number of each participant's ranks that are not written yet, by its place. */
    private final Map<Integer, Integer> unwritten = new HashMap<>();

    private final Map<Integer, Integer> lastRanks = new HashMap<>();
    /** Returns whether the migration is called off. Used in waits in which its thread could not notice that. */
    private BooleanSupplier calledOff = () -> false;

    private final WriterActivity activity = new WriterActivity();
    private final LeastRate leastRate;
    private long idleBeforeNs;
    private int endedRanks;
    private int endedCheckpoints;
    private boolean written;
    private long writeFailedNs;
    private boolean isWriteFailureReported;
    private long givenUpNs;
    private long nextReportNs;
    private volatile String waitsFor;
    private boolean begun;
    private int nextChecked;
    private Optional<PreCopyRounds> rounds = Optional.empty();

    /**
     * Makes a session for each leg of the plan. None of them has begun yet.
     *
     * @param tries number of attempts, with this one, that targets accepted
     */
    Attempt(MigrationContext context, int number, int tries, MigrationPlan plan) {
        this.number = number;
        this.tries = tries;
        this.plan = plan;
        this.job = context.job();
        this.settings = context.service().settings();
        this.record = context.record();
        this.metrics = context.service().metrics();
        this.choice = context.pages();
        this.originals = context.originals();
        this.keeping = context.keeping();
        this.leastRate = new LeastRate(settings.limits().minRate(), settings.rateTime());
        this.workRoot = settings.node().workDirectory().resolve(context.migrationId() + "." + number);
        NodeFacts here = context.service().node().facts();
        for (int place = 0; place < plan.legs().size(); place++) {
            sessions.add(new SourceSession(context, number, tries, plan, place, here, activity));
        }
    }

    int number() {
        return number;
    }

    /**
     * Sends every target the request for its ranks. Returns the first target that declines, or nothing if all accept.
     *
     * @param listener receives the targets' further messages and their loss, on other threads
     */
    Optional<NotTaken> begin(Cancellation cancellation, AttemptListener listener) throws InterruptedException {
        calledOff = () -> cancellation.reason().isPresent();
        for (int place = 0; place < sessions.size(); place++) {
            String from = plan.legs().get(place).address();
            try (LogContext.Scope about = LogContext.peer(from)) {
                String refusal = sessions.get(place)
                        .begin(cancellation, event -> listener.onEvent(new InboxEvent(number, from, event)));
                if (refusal != null) {
                    return Optional.of(new NotTaken(place, refusal));
                }
            } catch (IOException e) {
                return Optional.of(new NotTaken(place, String.valueOf(e.getMessage())));
            }
        }
        record.pages(choice.sentence(
                tries,
                sessions.stream().map(SourceSession::way).toList(),
                sessions.stream()
                        .map(SourceSession::whyOtherWay)
                        .flatMap(Optional::stream)
                        .toList()));
        return Optional.empty();
    }

    /**
     * Begins to copy the memory of the ranks whose checkpointer does that while they run.
     *
     * @param trees each rank's processes, from one scan for all
     * @param pods the enclosures of the ranks that are pods
     * @return false if there is no such rank
     */
    boolean startPreCopy(Map<Integer, List<ProcessIdentity>> trees, Map<Integer, Enclosure> pods) {
        Map<Integer, PreCopyRounds.PreCopyStart> starts = new LinkedHashMap<>();
        for (CheckpointTask task : tasks(trees, pods).values()) {
            SourceSession session = session(plan.placeOf(task.rank()));
            if (session.way() == MemoryWay.PRECOPIED) {
                starts.put(task.rank(), () -> startPreCopy(session.checkpointer(), task));
            }
        }
        if (!starts.isEmpty()) {
            rounds = Optional.of(new PreCopyRounds(starts, imageBytes(), choice.rule(), record::sentBytes, metrics));
            rounds.get().begin();
        }
        return rounds.isPresent();
    }

    private PreCopy startPreCopy(Checkpointer checkpointer, CheckpointTask task)
            throws CheckpointException, IOException {
        WorkDirectories.create(workRoot, task.rank());
        PreCopy begun = checkpointer.preCopy(task);
        OrphanedCommand.note(workRoot, begun.started());
        return begun;
    }

    /** Returns true if further rounds may be made after the copy ended: the migration has no time limit. */
    boolean mayCopyAgain() {
        return rounds.isPresent() && choice.rule().untilNs().isEmpty();
    }

    /** Orders another round after the copy ended, since the job cannot be stopped yet. */
    void copyAgain() {
        rounds.ifPresent(PreCopyRounds::again);
    }

    /** Returns the state of the copy of the running ranks' memory. Does not block. */
    PreCopyState checkPreCopy() throws CheckpointException {
        if (hasWriteFailed()) {
            // The tools end by it. The reason, and the target that caused it, follow.
            return new PreCopyState(false, "");
        }
        return rounds.isEmpty() ? new PreCopyState(true, "") : rounds.get().check();
    }

    private long imageBytes() {
        return choice.facts().values().stream()
                .mapToLong(JobFacts::streamableBytes)
                .sum();
    }

    /**
     * Begins to start a checkpoint for every rank.
     *
     * @param trees each rank's processes, from one scan for all
     * @param pods the enclosures of the ranks that are pods
     */
    void startCheckpoints(Map<Integer, List<ProcessIdentity>> trees, Map<Integer, Enclosure> pods) {
        Map<Integer, CheckpointTask> tasks = tasks(trees, pods);
        tasks.keySet().forEach(rank -> unwritten.merge(plan.placeOf(rank), 1, Integer::sum));
        begun = true;
        idleBeforeNs = activity.idleNs();
        checkpoints.start(tasks.keySet(), rank -> {
            Optional<PreCopy> copied = rounds.flatMap(all -> all.of(rank));
            if (copied.isEmpty()) {
                WorkDirectories.create(workRoot, rank);
            }
            CheckpointTask task =
                    copied.map(copy -> tasks.get(rank).after(copy)).orElse(tasks.get(rank));
            RankCommand checkpoint = session(plan.placeOf(rank)).checkpointer().checkpoint(task);
            OrphanedCommand.note(workRoot, checkpoint.started());
            return checkpoint;
        });
    }

    private Map<Integer, CheckpointTask> tasks(
            Map<Integer, List<ProcessIdentity>> trees, Map<Integer, Enclosure> pods) {
        Map<Integer, CheckpointTask> tasks = new LinkedHashMap<>();
        for (Job.RankProcess process : job.ranks()) {
            int rank = process.rank();
            int place = plan.placeOf(rank);
            tasks.put(
                    rank,
                    new CheckpointTask(
                            rank,
                            trees.get(rank),
                            job.user(),
                            sessions.get(place).imageDirectory(rank),
                            workRoot.resolve("rank-" + rank),
                            settings.limits().checkpointDeadline(),
                            originals.stoppedByJob(rank),
                            Optional.ofNullable(pods.get(rank)),
                            sessions.get(place).workWhenStopped(rank),
                            Optional.empty()));
        }
        return tasks;
    }

    /**
     * Handles checkpoints that ended.
     *
     * @param imageComplete called with a participant whose last rank is written; {@link #seal} completes its image
     */
    void checkCheckpoints(IntConsumer imageComplete) throws IOException, CheckpointException, InterruptedException {
        if (record.stoppedNs() == 0 && isJobStopped()) {
            record.noteStopped();
        }
        for (Optional<HeldRank> next = checkpoints.next(Duration.ZERO);
                next.isPresent();
                next = checkpoints.next(Duration.ZERO)) {
            endedCheckpoints++;
            onWritten(next.get(), imageComplete);
        }
        if (begun && checkpoints.isEmpty() && !written && !hasWriteFailed()) {
            written = true;
            record.step(SourceStep.RESTART);
        }
    }

    private void onWritten(HeldRank held, IntConsumer imageComplete)
            throws IOException, CheckpointException, InterruptedException {
        int place = plan.placeOf(held.rank());
        int left = unwritten.merge(place, -1, Integer::sum);
        try (LogContext.Scope about = LogContext.rank(held.rank())) {
            originals.held(held);
            record.paused();
            if (hasWriteFailed()) {
                LOG.info("rank {} is held, but its image is incomplete because a write failed", held.rank());
                return;
            }
            sendStoppedProcesses(held);
            session(place).carry(held, originals::trees);
            RightsBounds bounds = new RightsBounds(settings.rankFiles(), workRoot, calledOff);
            session(place).sendPrivileges(held, bounds);
            // The target compares the privileges in the meantime. Beside the scan above, the checks would delay it.
            if (endedCheckpoints == job.ranks().size()) {
                originals.startHeldChecks(job, this::whyOtherFiles);
            }
            record.written(session(place).outlet().lastBytesNs());
            LOG.info("rank {} is written and held", held.rank());
        }
        if (left == 0) {
            lastRanks.put(place, held.rank());
            imageComplete.accept(place);
        } else {
            end(held.rank());
        }
    }

    /** Compares the ranks' files, on the check's own thread. */
    private Optional<String> whyOtherFiles(Map<Integer, List<ProcessIdentity>> held)
            throws IOException, CheckpointException, InterruptedException {
        for (SourceSession session : sessions) {
            Optional<String> why = session.whyOtherFilesNow(held);
            if (why.isPresent()) {
                return why;
            }
        }
        return Optional.empty();
    }

    /**
     * Returns whether a checkpointer keeps the job from computing already. One that writes from within does so from its
     * first byte. For the others, each call checks one process, so that many ranks do not cost more.
     */
    private boolean isJobStopped() {
        if (job.checkpointer().writesInProcess()) {
            return record.sentBytes() > 0;
        }
        Job.RankProcess looked = job.ranks().get(nextChecked++ % job.ranks().size());
        ProcessIdentity root = originals.roots().get(looked.rank());
        return originals.stoppedByJob(looked.rank()).isEmpty()
                && ProcStat.read(Path.of("/proc", Integer.toString(root.pid()), "stat"))
                        .filter(stat -> stat.startTimeTicks() == root.startTimeTicks())
                        .filter(stat -> stat.isStopped() || stat.isTraced())
                        .isPresent();
    }

    /**
     * Sends the processes that the job had stopped. The target needs them before it votes, so this precedes the image's
     * completion.
     */
    private void sendStoppedProcesses(HeldRank held) throws IOException, CheckpointException {
        if (!held.stoppedByJob().isEmpty()) {
            StoppedProcesses processes = StoppedProcesses.of(held);
            LOG.info(
                    "rank {}: {} of its processes were stopped by the job itself, and stay stopped",
                    held.rank(),
                    processes.stopped().size());
            session(plan.placeOf(held.rank()))
                    .send(new ControlMessage.StoppedByJob(
                            held.rank(), processes.pids(), processes.parents(), processes.stopped()));
        }
    }

    /** Returns why the checkpoints are too slow, or empty if they are not. Call it repeatedly. */
    Optional<String> whyTooSlow() {
        return !begun || checkpoints.isEmpty() || hasWriteFailed()
                ? Optional.empty()
                : leastRate.whyTooSlow(
                        activity.idleNs() - idleBeforeNs, record.sentBytes() + endedCheckpoints * COMMAND_BYTES);
    }

    /** Returns true once a write has failed in any session. Then no image is sealed or kept. */
    private boolean hasWriteFailed() {
        return sessions.stream().anyMatch(session -> session.failure() != null);
    }

    /**
     * Returns the failure after a write failed without a known reason. The image can no longer become whole. Called
     * once.
     */
    Optional<Failure> onWriteFailed() {
        if (isWriteFailureReported || !hasWriteFailed()) {
            return Optional.empty();
        }
        long nowNs = System.nanoTime();
        if (writeFailedNs == 0) {
            writeFailedNs = nowNs;
        }
        if (nowNs - writeFailedNs < REASON_WAIT_NS) {
            return Optional.empty();
        }
        isWriteFailureReported = true;
        return sessions.stream()
                .filter(session -> session.failure() != null)
                .map(session -> new Failure(session.failure(), session.leg().address()))
                .findFirst();
    }

    /** Completes the image of a participant's last rank. From now on the participant may vote. */
    void seal(int place) throws IOException, InterruptedException {
        Integer rank = lastRanks.remove(place);
        if (rank != null) {
            end(rank);
        }
    }

    private void end(int rank) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(RELEASE_WAIT_S);
        session(plan.placeOf(rank)).files().endRank(rank, deadlineNs, calledOff);
        endedRanks++;
        if (endedRanks == job.ranks().size() && keeping.isWanted(number) && !hasWriteFailed()) {
            keep();
        }
    }

    /** Completes the copy, because the whole image is written. */
    private void keep() {
        List<ImageName> names = new ArrayList<>();
        try {
            for (SourceSession session : sessions) {
                names.addAll(session.files().names());
            }
            keeping.whole(number, names, originals.processes());
        } catch (ErrnoException e) {
            keeping.lose(number, "the images' names cannot be read: " + e.getMessage());
        }
    }

    /** Returns true if every rank's image is written and every original stopped. */
    boolean isWritten() {
        return written;
    }

    /** Returns true if the agents of all sessions work. Any thread; blocks it. */
    boolean responds(long limitNs) {
        return sessions.stream().allMatch(session -> session.responds(limitNs));
    }

    SourceSession session(int place) {
        return sessions.get(place);
    }

    /**
     * Gives the attempt up. Every write fails, every checkpoint is ended, and its stopped ranks pass to the originals.
     * An error could end processes that write their images themselves. For these, writes are accepted and discarded,
     * and the checkpoints end by themselves within the discard deadline. Call it until it is done.
     *
     * @return whether every checkpoint ended
     */
    boolean giveUp(String reason) {
        if (givenUpNs == 0) {
            givenUpNs = System.nanoTime();
            nextReportNs = givenUpNs;
            sessions.forEach(session -> session.fail(reason));
            rounds.ifPresent(PreCopyRounds::end);
        }
        if (job.checkpointer().writesInProcess() && endByThemselves()) {
            return checkpoints.isEmpty();
        }
        checkpoints.endAll(END_DEADLINE).forEach(originals::held);
        return true;
    }

    /** Describes the checkpoints that {@link #giveUp} waits for, or empty while it does not wait. Any thread. */
    Optional<String> waitsFor() {
        return Optional.ofNullable(waitsFor);
    }

    /** Checks which checkpoints ended. Returns false if some still run after their time. */
    private boolean endByThemselves() {
        checkpoints.takeEnded().forEach(originals::held);
        long nowNs = System.nanoTime();
        long leftNs = givenUpNs + settings.limits().discardDeadline().toNanos() - nowNs;
        if (checkpoints.isEmpty()) {
            waitsFor = null;
            return true;
        }
        if (leftNs <= 0) {
            waitsFor = null;
            sessions.forEach(SourceSession::refuse);
            LOG.error(
                    "the checkpoints of ranks {} still run {} s after the failure (discard_deadline): ending them."
                            + " Their writes fail with EIO from now on, which may end the processes themselves",
                    checkpoints.ranks(),
                    settings.limits().discardDeadline().toSeconds());
            return false;
        }
        waitsFor = "waiting until the checkpoints of ranks " + checkpoints.ranks()
                + " end; they write from inside their processes, so their writes are accepted and discarded."
                + " The rollback follows. Checkpoints that still run in "
                + TimeUnit.NANOSECONDS.toSeconds(leftNs) + " s (discard_deadline) are ended";
        if (nowNs - nextReportNs >= 0) {
            nextReportNs = nowNs + REPORT_NS;
            LOG.info("{}", waitsFor);
        }
        return true;
    }

    /** Closes every session, and removes the images' names. */
    void close() {
        rounds.ifPresent(PreCopyRounds::end);
        // All transports end before the first chunk is released, because they share the pool.
        sessions.forEach(SourceSession::stop);
        List<RuntimeException> failures = new ArrayList<>();
        for (SourceSession session : sessions) {
            try {
                session.close();
            } catch (RuntimeException e) {
                failures.add(e);
            }
        }
        keeping.attemptOver(number);
        WorkDirectories.removeOrWarn(workRoot);
        if (!failures.isEmpty()) {
            throw failures.get(0);
        }
    }
}
