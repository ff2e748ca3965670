package io.ppmr.daemon.jobs;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.UserPath;
import io.ppmr.linux.LogContext;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.protocol.control.PodFacts;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A job of the configuration. Its PIDs may be in files that its start command writes.
 *
 * @param name its name, as in {@code [jobs.NAME]}
 * @param user the user of its processes
 * @param checkpointer its checkpointer
 * @param ranks its processes
 * @param others its ranks on other nodes
 * @param hooks the hooks of its library
 * @param spares its own targets, the first of which is used, or empty for the configured targets
 * @param keep the directory in which copies of its images are kept, or empty for none
 * @param pods the pod that each rank is, or empty for a job that is none
 */
public record ConfiguredJob(
        String name,
        JobUser user,
        Checkpointer checkpointer,
        List<RankSource> ranks,
        Map<Integer, String> others,
        JobHooks hooks,
        List<InetSocketAddress> spares,
        Optional<Path> keep,
        Map<Integer, PodFacts> pods) {

    private static final Duration READ_LIMIT = Duration.ofSeconds(10);

    /**
     * The source of the PID of a rank's root process.
     *
     * @param pid the PID, or 0 if it is in a file
     * @param pidFile that file, or null for none
     */
    public record RankSource(int rank, int pid, Path pidFile) {}

    /** Creates a job whose ranks are all here, without hooks. */
    public ConfiguredJob(String name, JobUser user, Checkpointer checkpointer, List<RankSource> ranks) {
        this(name, user, checkpointer, ranks, Map.of(), JobHooks.NONE, List.of(), Optional.empty(), Map.of());
    }

    public ConfiguredJob {
        ranks = List.copyOf(ranks);
        others = Map.copyOf(others);
        spares = List.copyOf(spares);
        pods = Map.copyOf(pods);
    }

    /** Returns the job with its current PIDs. Throws for a PID file without a PID. */
    public Job resolve() throws IOException {
        List<Job.RankProcess> processes = new ArrayList<>();
        for (RankSource rank : ranks) {
            int pid = rank.pidFile() == null ? rank.pid() : read(rank);
            processes.add(new Job.RankProcess(rank.rank(), pid));
        }
        return new Job(name, user, checkpointer, processes, others, hooks, pods);
    }

    /** Returns true if a process of the job, or one that has its PID now, is on this node. */
    public boolean runsHere() {
        try {
            return resolve().ranks().stream().anyMatch(rank -> Files.exists(Path.of("/proc/" + rank.pid())));
        } catch (IOException e) {
            // A PID file that is missing or wrong.
            return false;
        }
    }

    private int read(RankSource rank) throws IOException {
        String what = "job " + name + ", rank " + rank.rank() + ": PID file " + rank.pidFile();
        String text = inTime(rank, what, () -> UserPath.read(rank.pidFile(), user, UserPath.MAX_TEXT_BYTES))
                .orElseThrow(() -> new IOException(what + " does not exist: has the job been started?"))
                .strip();
        if (!text.matches("[1-9]\\d{0,9}") || Long.parseLong(text) > Integer.MAX_VALUE) {
            throw new IOException(what + " does not hold a PID alone: correct what writes it");
        }
        return Integer.parseInt(text);
    }

    /** Reads a PID file on a thread of its own, because its filesystem may not answer. */
    private Optional<String> inTime(RankSource rank, String what, Callable<Optional<String>> read) throws IOException {
        FutureTask<Optional<String>> reading = new FutureTask<>(read);
        LogContext.thread(reading, "ppmr-pid-file").start();
        try {
            return reading.get(READ_LIMIT.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new IOException(
                    what + " has not been read within " + READ_LIMIT.toSeconds()
                            + " s: its filesystem does not answer. Remedy: keep PID files on a local disk",
                    e);
        } catch (ExecutionException e) {
            throw new IOException(
                    "job " + name + ", rank " + rank.rank() + ": the PID file "
                            + e.getCause().getMessage(),
                    e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException(what + ": the service is ending");
        }
    }
}
