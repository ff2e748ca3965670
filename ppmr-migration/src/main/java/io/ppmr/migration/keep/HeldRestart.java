package io.ppmr.migration.keep;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.RankCommands;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The restarts of all ranks of a copy: each is held when it is restored, and either all are released together or all
 * are ended. Closing it ends them if they have not been released; the command's thread owns it, and an end of the
 * command from outside may close it.
 */
public final class HeldRestart implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(HeldRestart.class);
    private static final Duration END_DEADLINE = Duration.ofSeconds(20);
    private static final Duration LOOK = Duration.ofMillis(50);

    private final Path workRoot;
    private final RankCommands restarts = new RankCommands("restart");
    private final List<HeldRank> ranks = new ArrayList<>();
    private boolean over;

    /** @param workRoot for the restart commands' own files; removed in the end */
    public HeldRestart(Path workRoot) {
        this.workRoot = workRoot;
    }

    /** Starts a restart for every rank. */
    public synchronized void start(KeptImages images, Checkpointer checkpointer, Duration deadline)
            throws IOException, CheckpointException {
        requireGoing();
        ImageManifest manifest = images.manifest();
        restarts.start(manifest.originals().keySet().stream().sorted().toList(), rank -> {
            Path work = WorkDirectories.create(workRoot, rank);
            return checkpointer.restart(new RestartTask(rank, manifest.user(), images.rank(rank), work, deadline));
        });
    }

    /** Waits until every rank is restored and held; throws as soon as one cannot be. */
    public void awaitHeld() throws CheckpointException, InterruptedException {
        while (!isHeld()) {
            look();
        }
    }

    private synchronized boolean isHeld() {
        return restarts.isEmpty();
    }

    private synchronized void look() throws CheckpointException, InterruptedException {
        requireGoing();
        restarts.next(LOOK).ifPresent(ranks::add);
    }

    private void requireGoing() throws CheckpointException {
        if (over) {
            throw new CheckpointException("told to end: what was restored is ended");
        }
    }

    /** Every restored process. */
    public synchronized List<ProcessIdentity> processes() {
        return ranks.stream().flatMap(rank -> rank.processes().stream()).toList();
    }

    /** The restored ranks. */
    public synchronized List<HeldRank> ranks() {
        return List.copyOf(ranks);
    }

    /** Proves once more that all are held, and continues all. */
    public synchronized void release() throws CheckpointException {
        requireGoing();
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
                .forEach((rank, why) -> LOG.error("rank {} could not be ended: {}", rank, why));
        WorkDirectories.removeOrWarn(workRoot);
    }
}
