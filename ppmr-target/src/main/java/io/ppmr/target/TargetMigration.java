package io.ppmr.target;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessIdentity;
import io.ppmr.checkpoint.RankCommand;
import io.ppmr.checkpoint.ResidentMemory;
import io.ppmr.checkpoint.RestartTask;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.protocol.ControlMessage;
import io.ppmr.protocol.ControlMessage.Begin;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.session.SessionAgent;
import io.ppmr.target.session.SessionEvent;
import io.ppmr.target.session.Transfer;
import io.ppmr.transport.ControlLink;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One migration at the target, from accepted to committed or rolled back. Restored ranks are held until the source says
 * that the originals are gone; before the target has reported that all are prepared, a lost source means rollback;
 * after it, a lost source means waiting, since only the source knows what it decided.
 *
 * <p>Run by the thread of its control connection, which owns everything here.
 */
final class TargetMigration {
    private static final Logger LOG = LoggerFactory.getLogger(TargetMigration.class);
    private static final Duration POLL = Duration.ofMillis(20);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);
    private static final long DOUBT_LOG_S = 30;

    private final Begin begin;
    private final Checkpointer checkpointer;
    private final Transfer transfer;
    private final ControlLink link;
    private final SessionAgent agent;
    private final BlockingQueue<SessionEvent> events;
    private final TargetSettings settings;
    private final Path imageRoot;
    private final Path workRoot;
    private final Map<Integer, RankCommand> restarts = new LinkedHashMap<>();
    private final List<HeldRank> restored = new ArrayList<>();
    private volatile boolean prepared;

    TargetMigration(
            Begin begin,
            Checkpointer checkpointer,
            Transfer transfer,
            ControlLink link,
            SessionAgent agent,
            BlockingQueue<SessionEvent> events,
            TargetSettings settings,
            String directory) {
        this.begin = begin;
        this.checkpointer = checkpointer;
        this.transfer = transfer;
        this.link = link;
        this.agent = agent;
        this.events = events;
        this.settings = settings;
        this.imageRoot = settings.mountPoint().resolve(directory);
        this.workRoot = settings.workDirectory().resolve(directory);
    }

    /** Whether only the source's word ends it now. Any thread. */
    boolean isPrepared() {
        return prepared;
    }

    /** Fails it, unless it is prepared. Any thread. */
    void giveUp(String reason) {
        if (!prepared) {
            transfer.fail(reason);
        }
    }

    /** How a migration ended here. */
    enum Outcome {
        COMMITTED,
        ROLLED_BACK
    }

    /** Runs the migration to its end. Once prepared is said, only the source's word rolls it back. */
    Outcome run() throws InterruptedException {
        String failure = prepare();
        if (failure == null) {
            return decide();
        }
        rollBack(failure);
        return Outcome.ROLLED_BACK;
    }

    /** Everything up to the vote; gives why there cannot be one, or null. */
    private String prepare() throws InterruptedException {
        try {
            link.send(new ControlMessage.Accept(System.nanoTime()));
            startRestarts();
            String failure = awaitPrepared();
            if (failure == null) {
                failure = failureIn(events.poll());
            }
            if (failure == null) {
                prepared = true;
                link.send(new ControlMessage.Prepared(transfer.report(ResidentMemory.peakBytes())));
                LOG.info("migration {}: all ranks are restored and held", begin.migrationId());
            }
            return failure;
        } catch (IOException | CheckpointException e) {
            return String.valueOf(e.getMessage());
        } catch (RuntimeException e) {
            LOG.error("migration {}: a defect of this service", begin.migrationId(), e);
            return "the target's service has failed: " + e;
        }
    }

    private void startRestarts() throws IOException, CheckpointException {
        JobUser user = new JobUser(begin.uid(), begin.gid());
        for (int rank : begin.ranks()) {
            Path work = WorkDirectories.create(workRoot, rank, user);
            Path images = imageRoot.resolve(ArrivingImages.rankPath(rank).substring(1));
            restarts.put(
                    rank, checkpointer.restart(new RestartTask(rank, user, images, work, settings.restartDeadline())));
        }
    }

    /** Waits until every rank is restored and every byte is accounted for; gives why that cannot be, or null. */
    private String awaitPrepared() throws IOException, CheckpointException, InterruptedException {
        while (!restarts.isEmpty() || !transfer.complete()) {
            for (Map.Entry<Integer, RankCommand> restart : List.copyOf(restarts.entrySet())) {
                HeldRank rank = restart.getValue().await(Duration.ofMillis(1));
                if (rank != null) {
                    restarts.remove(restart.getKey());
                    restored.add(rank);
                    link.send(new ControlMessage.Restored(rank.rank(), pids(rank)));
                }
            }
            String failure = failureIn(events.poll(POLL.toMillis(), TimeUnit.MILLISECONDS));
            if (failure != null) {
                return failure;
            }
        }
        for (HeldRank rank : restored) {
            rank.requireHeld();
        }
        return null;
    }

    private static List<Integer> pids(HeldRank rank) {
        return rank.processes().stream().map(ProcessIdentity::pid).toList();
    }

    private static String failureIn(SessionEvent event) {
        if (event == null) {
            return null;
        }
        if (event instanceof SessionEvent.TransferFailed failed) {
            return failed.reason();
        }
        if (event instanceof SessionEvent.LinkLost lost) {
            return "the source was lost: " + lost.reason();
        }
        ControlMessage message = ((SessionEvent.Said) event).message();
        if (message instanceof ControlMessage.RollBack rollBack) {
            return "the source rolls back: " + rollBack.reason();
        }
        if (message instanceof ControlMessage.Failed failed) {
            return "the source fails: " + failed.reason();
        }
        return "the source says " + message.getClass().getSimpleName() + " at a wrong time";
    }

    /** All ranks are prepared: only the source's word ends them or sets them going. */
    private Outcome decide() throws InterruptedException {
        while (true) {
            SessionEvent event = events.poll(DOUBT_LOG_S, TimeUnit.SECONDS);
            if (event instanceof SessionEvent.Said said) {
                if (said.message() instanceof ControlMessage.Commit) {
                    commit();
                    return Outcome.COMMITTED;
                }
                if (said.message() instanceof ControlMessage.RollBack rollBack) {
                    rollBack("the source rolls back: " + rollBack.reason());
                    return Outcome.ROLLED_BACK;
                }
            }
            LOG.error(
                    "migration {}: IN DOUBT: {} ranks are restored and held here, and the source has not said whether "
                            + "the originals are gone ({}); they stay held until the source connects again and says so",
                    begin.migrationId(),
                    restored.size(),
                    event == null ? "it is silent" : failureIn(event));
        }
    }

    private void commit() {
        List<String> notGoing = new ArrayList<>();
        for (HeldRank rank : restored) {
            try {
                rank.release();
            } catch (CheckpointException | RuntimeException e) {
                notGoing.add("rank " + rank.rank() + " could not be set going: " + e.getMessage());
                LOG.error("migration {}: {}", begin.migrationId(), notGoing.get(notGoing.size() - 1));
            }
        }
        agent.conversationOver();
        say(
                notGoing.isEmpty()
                        ? new ControlMessage.Committed(begin.migrationId())
                        : new ControlMessage.Failed(String.join("; ", notGoing)));
        LOG.info("migration {}: committed, {} ranks run here", begin.migrationId(), restored.size() - notGoing.size());
    }

    private void rollBack(String reason) throws InterruptedException {
        LOG.warn("migration {}: rolled back: {}", begin.migrationId(), reason);
        transfer.fail(reason);
        // Said here as well as by the transfer's agent, so that it is certain to come before the last word.
        say(new ControlMessage.Failed(reason));
        restarts.values().forEach(RankCommand::cancel);
        for (RankCommand restart : restarts.values()) {
            try {
                HeldRank late = restart.await(END_DEADLINE);
                if (late != null) {
                    restored.add(late);
                }
            } catch (CheckpointException | RuntimeException e) {
                LOG.info("a restart ended: {}", e.getMessage());
            }
        }
        for (HeldRank rank : restored) {
            try {
                rank.end(END_DEADLINE);
            } catch (CheckpointException | RuntimeException e) {
                LOG.error("rank {} could not be ended, end it by hand: {}", rank.rank(), e.getMessage());
            }
        }
        agent.conversationOver();
        say(new ControlMessage.RolledBack(begin.migrationId()));
    }

    private void say(ControlMessage message) {
        try {
            link.send(message);
        } catch (IOException e) {
            LOG.warn("the source could not be told {}: {}", message.getClass().getSimpleName(), e.getMessage());
        }
    }

    /** Frees everything that the migration held, but for the ranks. */
    void close() throws InterruptedException {
        LastWords.awaitHeard(events);
        agent.stop();
        transfer.close();
        try {
            WorkDirectories.remove(workRoot);
        } catch (IOException e) {
            LOG.warn("work directory {} stays behind: {}", workRoot, e.getMessage());
        }
    }

    /** The name of a migration's directory. */
    static String directory(Begin begin, int attempt) {
        return begin.migrationId() + "." + attempt;
    }
}
