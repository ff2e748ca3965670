package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.RankCommand;
import io.ppmr.checkpoint.RankCommands;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.StoppedProcesses;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.os.LogContext;
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.NodeFacts;
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
 * One try to bring the images of all ranks to the targets: a session for each target, a checkpoint for each rank, all
 * at
 * once (paper 1, section IV). It decides nothing: what it hears and what has become of the checkpoints is for the
 * migration, whose worker owns it.
 */
final class Attempt {
    private static final Logger LOG = LoggerFactory.getLogger(Attempt.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);
    private static final long RELEASE_WAIT_S = 20;
    /** A target that fails a write has so long to say why; then the write's own error is taken for the reason. */
    private static final long REASON_WAIT_NS = TimeUnit.SECONDS.toNanos(2);

    /** The bytes that could be written in the time of starting and ending a command: many small ranks write little. */
    private static final long COMMAND_BYTES = 64 << 10;

    private static final long SAY_NS = TimeUnit.SECONDS.toNanos(10);

    /**
     * Something heard from a participant, or that it is lost.
     *
     * @param attempt in which; a later one may have another participant in the same place
     */
    record InboxEvent(int attempt, String participant, SessionEvent event) {}

    /** Takes what is heard, on other threads. */
    @FunctionalInterface
    interface AttemptListener {
        /**
         * Takes it.
         *
         * @throws ProtocolException if the participant says more than is dealt with: its connection ends
         */
        void onEvent(InboxEvent heard) throws ProtocolException;
    }

    /**
     * The failure of an attempt.
     *
     * @param participant that failed; empty if none did
     */
    record Failure(String reason, String participant) {}

    /** A participant did not take its ranks; nothing has been done to the originals in this attempt. */
    record NotTaken(int place, boolean refused, String reason) {}

    /**
     * The job that a migration's attempts move, and the records of it.
     *
     * @param secret the migration's, which stands in the journal already
     * @param service what belongs to the service
     * @param job whose ranks they are
     * @param pages how its memory is to travel, with what is known of each rank
     * @param record of the migration
     * @param originals the ranks' processes
     * @param keeping the copy that may be wanted
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
    private final MigrationPlan plan;
    private final Job job;
    private final SourceSettings settings;
    private final MigrationRecord record;
    private final PageChoice choice;
    private final OriginalRanks originals;
    private final Keeping keeping;
    private final Path workRoot;
    private final List<SourceSession> sessions = new ArrayList<>();
    private final RankCommands checkpoints = new RankCommands("checkpoint");
    /** Counts the ranks of each participant that are not written yet, by its place. */
    private final Map<Integer, Integer> unwritten = new HashMap<>();

    private final Map<Integer, Integer> lastRanks = new HashMap<>();
    /** Returns whether the migration is called off, in a wait in which its thread would not see that. */
    private BooleanSupplier calledOff = () -> false;

    private final WriterActivity activity = new WriterActivity();
    private final LeastRate leastRate;
    private long idleBeforeNs;
    private int endedRanks;
    private int endedCheckpoints;
    private boolean written;
    private long spentSinceNs;
    private boolean spentSaid;
    private long givenUpSinceNs;
    private long nextSayNs;
    private volatile String waitsFor;
    private boolean begun;
    private int nextLooked;

    /** Makes a session for each leg of the plan; none has begun yet. */
    Attempt(MigrationContext subject, int number, MigrationPlan plan) {
        this.number = number;
        this.plan = plan;
        this.job = subject.job();
        this.settings = subject.service().settings();
        this.record = subject.record();
        this.choice = subject.pages();
        this.originals = subject.originals();
        this.keeping = subject.keeping();
        this.leastRate = new LeastRate(settings.limits().minRate(), settings.rateTime());
        this.workRoot = settings.node().workDirectory().resolve(subject.migrationId() + "." + number);
        NodeFacts here = subject.service().node().facts();
        for (int place = 0; place < plan.legs().size(); place++) {
            sessions.add(new SourceSession(subject, number, plan, place, here, activity));
        }
    }

    int number() {
        return number;
    }

    /**
     * Asks every target to take its ranks; the first that does not, or nothing if all do.
     *
     * @param heard told what the targets say from then on, and that one is lost, on other threads
     */
    Optional<NotTaken> begin(Cancellation cancellation, AttemptListener heard) throws InterruptedException {
        calledOff = () -> cancellation.reason().isPresent();
        for (int place = 0; place < sessions.size(); place++) {
            String from = plan.legs().get(place).address();
            try (LogContext.Scope about = LogContext.peer(from)) {
                String refusal = sessions.get(place)
                        .begin(cancellation, event -> heard.onEvent(new InboxEvent(number, from, event)));
                if (refusal != null) {
                    return Optional.of(new NotTaken(place, true, refusal));
                }
            } catch (IOException e) {
                return Optional.of(new NotTaken(place, false, String.valueOf(e.getMessage())));
            }
        }
        record.pages(choice.sentence(
                number > 1,
                sessions.size(),
                sessions.stream()
                        .map(SourceSession::whyImages)
                        .flatMap(Optional::stream)
                        .toList()));
        return Optional.empty();
    }

    /**
     * Begins to start a checkpoint for every rank.
     *
     * @param trees each rank's processes, by one look for all
     * @param pods what lies around the ranks that are pods
     */
    void startCheckpoints(Map<Integer, List<ProcessIdentity>> trees, Map<Integer, Enclosure> pods) {
        Map<Integer, CheckpointTask> tasks = new LinkedHashMap<>();
        for (Job.RankProcess process : job.ranks()) {
            int rank = process.rank();
            int place = plan.placeOf(rank);
            unwritten.merge(place, 1, Integer::sum);
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
                            sessions.get(place).lengthsWhenStopped()));
        }
        begun = true;
        idleBeforeNs = activity.idleNs();
        checkpoints.start(tasks.keySet(), rank -> {
            WorkDirectories.create(workRoot, rank);
            RankCommand checkpoint = session(plan.placeOf(rank)).checkpointer().checkpoint(tasks.get(rank));
            OrphanedCommand.note(workRoot, checkpoint.started());
            return checkpoint;
        });
    }

    /**
     * Takes notice of checkpoints that have ended.
     *
     * @param imageComplete told of a participant whose last rank is written: {@link #seal} lets its image become whole
     */
    void work(IntConsumer imageComplete) throws IOException, CheckpointException, InterruptedException {
        if (record.stillNs() == 0 && standsStill()) {
            record.standsStill();
        }
        for (Optional<HeldRank> next = checkpoints.next(Duration.ZERO);
                next.isPresent();
                next = checkpoints.next(Duration.ZERO)) {
            endedCheckpoints++;
            written(next.get(), imageComplete);
        }
        if (begun && checkpoints.isEmpty() && !written && !hasWriteFailed()) {
            written = true;
            record.step(SourceStep.RESTART);
        }
    }

    private void written(HeldRank held, IntConsumer imageComplete)
            throws IOException, CheckpointException, InterruptedException {
        int place = plan.placeOf(held.rank());
        int left = unwritten.merge(place, -1, Integer::sum);
        try (LogContext.Scope about = LogContext.rank(held.rank())) {
            originals.held(held);
            record.paused();
            if (hasWriteFailed()) {
                LOG.info("rank {} is held, but its image is not whole: a write has failed before", held.rank());
                return;
            }
            tellStopped(held);
            session(place).carry(held, originals::trees);
            if (endedCheckpoints == job.ranks().size()) {
                originals.lookAtHeld(job, this::whyOtherFiles);
            }
            RightsBounds bounds = new RightsBounds(settings.rankFiles(), workRoot, calledOff);
            session(place).sayWhatItMay(held, bounds);
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

    /** On a thread of the look's own. */
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
     * Returns whether a checkpointer has begun to keep the job from computing. One that writes from within has when its
     * first byte comes; of the others' processes one is looked at in each call, so that many ranks cost no more.
     */
    private boolean standsStill() {
        if (job.checkpointer().writesInProcess()) {
            return record.sentBytes() > 0;
        }
        Job.RankProcess looked = job.ranks().get(nextLooked++ % job.ranks().size());
        ProcessIdentity root = originals.roots().get(looked.rank());
        return originals.stoppedByJob(looked.rank()).isEmpty()
                && ProcStat.read(Path.of("/proc", Integer.toString(root.pid()), "stat"))
                        .filter(stat -> stat.startTimeTicks() == root.startTimeTicks())
                        .filter(stat -> stat.isStopped() || stat.isTraced())
                        .isPresent();
    }

    /** Before the rank's image is whole, so that the target knows it when it votes. */
    private void tellStopped(HeldRank held) throws IOException, CheckpointException {
        if (!held.stoppedByJob().isEmpty()) {
            StoppedProcesses told = StoppedProcesses.of(held);
            LOG.info(
                    "rank {}: the job itself had stopped {} of its processes: they stay so",
                    held.rank(),
                    told.stopped().size());
            session(plan.placeOf(held.rank()))
                    .send(new ControlMessage.StoppedByJob(held.rank(), told.pids(), told.parents(), told.stopped()));
        }
    }

    /** Returns why the checkpoints are too slow; empty if they are not. To be called again and again. */
    Optional<String> tooSlow() {
        return !begun || checkpoints.isEmpty() || hasWriteFailed()
                ? Optional.empty()
                : leastRate.tooSlow(
                        activity.idleNs() - idleBeforeNs, record.sentBytes() + endedCheckpoints * COMMAND_BYTES);
    }

    /** Returns true once a write has failed in any session. Then nothing is sealed or kept. */
    private boolean hasWriteFailed() {
        return sessions.stream().anyMatch(session -> session.failure() != null);
    }

    /** A write failed without a known reason: the image can no longer become whole. Called once. */
    Optional<Failure> onWriteFailed() {
        if (spentSaid || !hasWriteFailed()) {
            return Optional.empty();
        }
        long nowNs = System.nanoTime();
        if (spentSinceNs == 0) {
            spentSinceNs = nowNs;
        }
        if (nowNs - spentSinceNs < REASON_WAIT_NS) {
            return Optional.empty();
        }
        spentSaid = true;
        return sessions.stream()
                .filter(session -> session.failure() != null)
                .map(session -> new Failure(session.failure(), session.leg().address()))
                .findFirst();
    }

    /** The last rank of a participant is said to be whole: from now on it may vote. */
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

    /** The whole image is written: from now on a copy of it is a checkpoint. */
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
    boolean written() {
        return written;
    }

    /** Returns true if the agents of all sessions do their work. Any thread; blocks it. */
    boolean responds(long limitNs) {
        return sessions.stream().allMatch(session -> session.responds(limitNs));
    }

    SourceSession session(int place) {
        return sessions.get(place);
    }

    /**
     * Gives the attempt up: every write fails, every checkpoint is ended, and the ranks that one has left stopped are
     * with the originals. Where processes write their images themselves an error could end them: then every write is
     * taken and thrown away, and the checkpoints end by themselves, within the discard deadline. To be called again
     * until it is done.
     *
     * @return whether every checkpoint has ended
     */
    boolean giveUp(String reason) {
        if (givenUpSinceNs == 0) {
            givenUpSinceNs = System.nanoTime();
            nextSayNs = givenUpSinceNs;
            sessions.forEach(session -> session.fail(reason));
        }
        if (job.checkpointer().writesInProcess() && endByThemselves()) {
            return checkpoints.isEmpty();
        }
        checkpoints.endAll(END_DEADLINE).forEach(originals::held);
        return true;
    }

    /** Describes the peers that {@link #giveUp} waits for; empty while it does not wait. Any thread. */
    Optional<String> waitsFor() {
        return Optional.ofNullable(waitsFor);
    }

    /** Looks which checkpoints have ended; false if some have not and the time for it is over. */
    private boolean endByThemselves() {
        checkpoints.takeEnded().forEach(originals::held);
        long nowNs = System.nanoTime();
        long leftNs = givenUpSinceNs + settings.limits().discardDeadline().toNanos() - nowNs;
        if (checkpoints.isEmpty()) {
            waitsFor = null;
            return true;
        }
        if (leftNs <= 0) {
            waitsFor = null;
            sessions.forEach(SourceSession::refuse);
            LOG.error(
                    "the checkpoints of ranks {} still run {} s after the failure (discard_deadline): they are ended,"
                            + " and what they write fails with EIO from now on, which may end the processes themselves",
                    checkpoints.ranks(),
                    settings.limits().discardDeadline().toSeconds());
            return false;
        }
        waitsFor = "it waits until the checkpoints of ranks " + checkpoints.ranks()
                + " have ended; they write from inside their processes, so what they write is taken and thrown away."
                + " Then it rolls back. Those that still run in "
                + TimeUnit.NANOSECONDS.toSeconds(leftNs) + " s (discard_deadline) are ended";
        if (nowNs - nextSayNs >= 0) {
            nextSayNs = nowNs + SAY_NS;
            LOG.info("{}", waitsFor);
        }
        return true;
    }

    /** Takes every session down and the images' names away. */
    void close() {
        // All transports end before the first chunk is given back: they share the pool.
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
