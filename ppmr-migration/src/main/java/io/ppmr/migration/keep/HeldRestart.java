package io.ppmr.migration.keep;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.RankCommands;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The restarts of all ranks of a copy. Each rank is held when it is restored. Then either all are released together, or
 * all are killed. Closing it kills them unless they were released. The command's thread owns it, and a shutdown hook
 * may close it.
 */
public final class HeldRestart implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(HeldRestart.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);
    private static final Duration POLL = Duration.ofMillis(50);

    private final Path workRoot;
    private final RankCommands restarts = new RankCommands("restart");
    private final List<HeldRank> ranks = new ArrayList<>();
    private boolean over;

    /** @param workRoot directory for the restart commands' own files; removed in the end */
    public HeldRestart(Path workRoot) {
        this.workRoot = workRoot;
    }

    /** Starts a restart for every rank. */
    public synchronized void start(KeptImages images, Checkpointer checkpointer, Duration deadline)
            throws IOException, CheckpointException {
        requireNotClosed();
        ImageManifest manifest = images.manifest();
        restarts.start(manifest.originals().keySet().stream().sorted().toList(), rank -> {
            Path work = WorkDirectories.create(workRoot, rank);
            return checkpointer.restart(new RestartTask(rank, manifest.user(), images.rank(rank), work, deadline));
        });
    }

    /** Waits until every rank is restored and held. Throws as soon as one fails. */
    public void awaitHeld() throws CheckpointException, InterruptedException {
        while (!isHeld()) {
            pollRestarts();
        }
    }

    private synchronized boolean isHeld() {
        return restarts.isEmpty();
    }

    private synchronized void pollRestarts() throws CheckpointException, InterruptedException {
        requireNotClosed();
        restarts.next(POLL).ifPresent(ranks::add);
    }

    private void requireNotClosed() throws CheckpointException {
        if (over) {
            throw new CheckpointException("the command is ending; the restored processes are killed");
        }
    }

    /** Returns all restored processes. */
    public synchronized List<ProcessIdentity> processes() {
        return ranks.stream().flatMap(rank -> rank.processes().stream()).toList();
    }

    /** Returns the restored ranks. */
    public synchronized List<HeldRank> ranks() {
        return List.copyOf(ranks);
    }

    /** Proves once more that all ranks are held, and continues all. */
    public synchronized void release() throws CheckpointException {
        requireNotClosed();
        for (HeldRank rank : ranks) {
            rank.requireHeld();
        }
        over = true;
        Map<Integer, String> failures = HeldRank.releaseAll(ranks);
        WorkDirectories.removeOrWarn(workRoot);
        if (!failures.isEmpty()) {
            throw new CheckpointException(String.join("; ", failures.values()));
        }
    }

    @Override
    public synchronized void close() {
        if (over) {
            return;
        }
        over = true;
        ranks.addAll(restarts.endAll(END_DEADLINE));
        HeldRank.endAll(ranks, END_DEADLINE)
                .forEach((rank, why) -> LOG.error("rank {} could not be killed: {}", rank, why));
        WorkDirectories.removeOrWarn(workRoot);
    }
}
