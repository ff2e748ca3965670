package io.ppmr.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.CheckpointTask;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.ProcessIdentity;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.RankCommand;
import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.source.MigrationProgress.Step;
import io.ppmr.source.MigrationReport.Outcome;
import io.ppmr.source.session.SessionEvent;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One migration at the source: every rank is checkpointed at once into the mount while the target restarts them out of
 * its own (paper 1, section IV). The originals are ended only when the target holds every restored rank; on any failure
 * before that they go on.
 *
 * <p>Runs on the thread that calls {@link #run}, which owns everything here but the session.
 */
final class SourceMigration {
    private static final Logger LOG = LoggerFactory.getLogger(SourceMigration.class);
    private static final Duration POLL = Duration.ofMillis(5);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);
    private static final long RELEASE_WAIT_S = 20;
    private static final Duration TELL_DEADLINE = Duration.ofSeconds(60);

    private final String id;
    private final Job job;
    private final SourceSettings settings;
    private final SourceSession session;
    private final ProcessTable processes;
    private final MigrationRecord journal;
    private final Cancellation cancellation;
    private final Path workRoot;
    private final Map<Integer, RankCommand> checkpoints = new LinkedHashMap<>();
    private final List<HeldRank> originals = new ArrayList<>();
    private boolean notBegun;

    SourceMigration(
            String id,
            Job job,
            SourceSettings settings,
            SourceSession session,
            ProcessTable processes,
            MigrationRecord journal,
            Cancellation cancellation) {
        this.id = id;
        this.job = job;
        this.settings = settings;
        this.session = session;
        this.processes = processes;
        this.journal = journal;
        this.cancellation = cancellation;
        this.workRoot = settings.workDirectory().resolve(session.directory());
    }

    /** Runs the migration to its end; whatever goes wrong before the commit, the originals go on. */
    MigrationReport run() {
        try {
            String refusal = prepare();
            if (refusal != null) {
                return journal.report(Outcome.REFUSED, refusal);
            }
        } catch (IOException | CheckpointException e) {
            return rollBack(String.valueOf(e.getMessage()));
        } catch (RuntimeException e) {
            LOG.error("migration {}: a defect of this service", id, e);
            return rollBack("the source's service has failed: " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return rollBack("the source's service ends");
        }
        return commit();
    }

    /** Everything up to the point where every copy is held; gives why the target refuses, or null. */
    private String prepare() throws IOException, CheckpointException, InterruptedException {
        List<ProcessIdentity> roots = roots();
        cancellation.check();
        String refusal = begin();
        if (refusal == null) {
            journal.expects(imageBytes(roots));
            journal.step(Step.CHECKPOINT);
            startCheckpoints(roots);
            awaitPrepared();
        }
        return refusal;
    }

    private String begin() throws IOException, InterruptedException {
        try {
            return session.begin(job, id, journal, cancellation);
        } catch (IOException e) {
            notBegun = true;
            throw e;
        }
    }

    /** Whether the target was never reached, so that nothing was done to the originals: another may be asked. */
    boolean notBegun() {
        return notBegun;
    }

    /** The processes as they are now; one that does not exist or belongs to another user is refused here. */
    private List<ProcessIdentity> roots() throws CheckpointException {
        List<ProcessIdentity> roots = new ArrayList<>();
        for (Job.RankProcess rank : job.ranks()) {
            ProcessIdentity root = processes.of(rank.pid());
            processes.requireOwner(root, job.user());
            roots.add(root);
        }
        return roots;
    }

    private void startCheckpoints(List<ProcessIdentity> roots) throws IOException, CheckpointException {
        for (int i = 0; i < roots.size(); i++) {
            int rank = job.ranks().get(i).rank();
            Path work = WorkDirectories.create(workRoot, rank, job.user());
            Path images = session.imageDirectory(rank);
            checkpoints.put(
                    rank,
                    job.checkpointer()
                            .checkpoint(new CheckpointTask(
                                    rank, roots.get(i), job.user(), images, work, settings.checkpointDeadline())));
        }
    }

    /** Waits until every original is held and every copy is restored and held. */
    private void awaitPrepared() throws IOException, CheckpointException, InterruptedException {
        boolean prepared = false;
        while (!prepared) {
            cancellation.check();
            for (Map.Entry<Integer, RankCommand> checkpoint : List.copyOf(checkpoints.entrySet())) {
                HeldRank held = checkpoint.getValue().await(Duration.ofMillis(1));
                if (held != null) {
                    checkpoints.remove(checkpoint.getKey());
                    originals.add(held);
                    session.files().endRank(held.rank(), System.nanoTime() + TimeUnit.SECONDS.toNanos(RELEASE_WAIT_S));
                    LOG.info("migration {}: rank {} is written and held", id, held.rank());
                }
            }
            if (checkpoints.isEmpty() && journal.step() == Step.CHECKPOINT) {
                journal.written(session.outlet().lastBytesNs());
                journal.step(Step.RESTART);
            }
            SessionEvent event = session.poll(POLL);
            prepared = event != null && isPrepared(event);
        }
        if (!checkpoints.isEmpty()) {
            throw new IOException("the target reports prepared before every rank is written: it is broken");
        }
    }

    private boolean isPrepared(SessionEvent event) throws IOException {
        if (event instanceof SessionEvent.Lost lost) {
            throw new IOException(lost.reason());
        }
        ControlMessage message = ((SessionEvent.Said) event).message();
        if (message instanceof ControlMessage.Failed failed) {
            throw new IOException("the target fails: " + failed.reason());
        }
        if (message instanceof ControlMessage.RolledBack) {
            throw new IOException("the target has rolled back");
        }
        if (message instanceof ControlMessage.Progress progress) {
            journal.progress(progress);
        } else if (message instanceof ControlMessage.Restored restored) {
            LOG.info("migration {}: rank {} is restored and held on the target", id, restored.rank());
            journal.restored(restored);
        } else if (message instanceof ControlMessage.Prepared ready) {
            journal.prepared(ready.report());
            return true;
        } else {
            throw new IOException("the target says " + message.getClass().getSimpleName() + " at a wrong time");
        }
        return false;
    }

    /** About how large the images will be. */
    private long imageBytes(List<ProcessIdentity> roots) {
        return roots.stream()
                .flatMap(root -> processes.tree(root).stream())
                .mapToLong(process -> ResidentMemory.unfiledBytes(process.pid()))
                .sum();
    }

    /** The point of no return: from the first original that is ended on, the only way is forward. */
    private MigrationReport commit() {
        try {
            cancellation.decide();
        } catch (IOException e) {
            return rollBack(e.getMessage());
        }
        journal.step(Step.COMMIT);
        for (HeldRank original : originals) {
            try {
                original.requireHeld();
            } catch (CheckpointException | RuntimeException e) {
                return rollBack("an original is not held any more: " + e.getMessage());
            }
        }
        boolean interrupted = Thread.interrupted();
        try {
            boolean anyLeft = false;
            for (HeldRank original : originals) {
                try {
                    original.end(END_DEADLINE);
                } catch (CheckpointException | RuntimeException e) {
                    anyLeft = true;
                    LOG.error("migration {}: the original of rank {} is left: {}", id, original.rank(), e.getMessage());
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
            // A copy must not run beside an original: then the ranks stay held on the target until somebody has looked.
            String failure = anyLeft
                    ? "an original could not be ended; the restored ranks stay held on the target"
                    : session.tellCommit(id, settings.decisionDeadline());
            journal.step(Step.DONE);
            return failure == null ? journal.report(Outcome.COMMITTED, "") : journal.report(Outcome.IN_DOUBT, failure);
        } finally {
            close();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private MigrationReport rollBack(String reason) {
        LOG.warn("migration {}: rolling back: {}", id, reason);
        boolean interrupted = Thread.interrupted();
        journal.step(Step.ROLL_BACK);
        try {
            session.fail(reason);
            interrupted |= endCheckpoints();
        } finally {
            // Whatever else fails. The target sets no copy going without a commit, so nobody has to be waited for.
            releaseOriginals();
        }
        try {
            String unsure = session.tellRollBack(id, reason, TELL_DEADLINE);
            if (unsure != null) {
                LOG.warn("migration {}: the target has not confirmed the rollback: {}", id, unsure);
            }
        } finally {
            close();
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
        journal.step(Step.DONE);
        return journal.report(Outcome.ROLLED_BACK, reason);
    }

    /** Cancels every checkpoint that is under way, then waits for all of them; whether it was interrupted. */
    private boolean endCheckpoints() {
        boolean interrupted = false;
        checkpoints.values().forEach(RankCommand::cancel);
        long deadlineNs = System.nanoTime() + END_DEADLINE.toNanos();
        for (Map.Entry<Integer, RankCommand> checkpoint : checkpoints.entrySet()) {
            try {
                Duration left = Duration.ofNanos(Math.max(1, deadlineNs - System.nanoTime()));
                HeldRank late = checkpoint.getValue().await(left);
                if (late != null) {
                    originals.add(late);
                } else {
                    LOG.error(
                            "migration {}: the checkpoint of rank {} has not ended within {}; look after its process",
                            id,
                            checkpoint.getKey(),
                            END_DEADLINE);
                }
            } catch (CheckpointException | RuntimeException e) {
                LOG.info("migration {}: rank {}: {}", id, checkpoint.getKey(), e.getMessage());
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        return interrupted;
    }

    private void releaseOriginals() {
        for (HeldRank original : originals) {
            try {
                original.release();
            } catch (CheckpointException | RuntimeException e) {
                LOG.error(
                        "migration {}: the original of rank {} cannot be set going: {}",
                        id,
                        original.rank(),
                        e.getMessage());
            }
        }
    }

    private void close() {
        session.close();
        try {
            WorkDirectories.remove(workRoot);
        } catch (IOException e) {
            LOG.warn("work directory {} stays behind: {}", workRoot, e.getMessage());
        }
    }
}
