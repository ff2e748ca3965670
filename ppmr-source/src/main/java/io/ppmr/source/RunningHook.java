package io.ppmr.source;

import io.ppmr.checkpoint.AbandonedCommand;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.ProcessIdentity;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.checkpoint.StartedCommands;
import io.ppmr.logging.LogContext;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The note of a hook that runs: which process it is, so that a service that finds this one dead waits for it, or ends
 * it, before it runs another for the same job. The process is this service's child with the hook's mark in its
 * environment (proc_pid_environ(5)); it is noted on a thread of its own some milliseconds after its start, and a
 * service that is killed within those leaves it unnoted. Made and closed by the migration's thread.
 */
final class RunningHook implements AutoCloseable {
    /** The variable in which a hook has its mark. */
    static final String VARIABLE = "PPMR_HOOK";

    private static final Logger LOG = LoggerFactory.getLogger(RunningHook.class);
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(5);
    private static final long WAIT_NS = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long JOIN_NS = TimeUnit.SECONDS.toNanos(5);

    private final Path workDirectory;
    private final String mark;
    private final Thread noter;
    private volatile boolean ended;

    /**
     * Begins to look for a hook that is about to be started.
     *
     * @param workDirectory in which it runs, and where the note is made
     */
    RunningHook(SiteCommand hook, Path workDirectory) {
        this.mark = workDirectory.toAbsolutePath().resolve(hook.name()).toString();
        this.workDirectory = workDirectory;
        noter = LogContext.thread(this::note, "ppmr-hook-note");
        noter.start();
    }

    /** The value of {@link #VARIABLE} that it is to be given. */
    String mark() {
        return mark;
    }

    private void note() {
        try {
            Optional<ProcessIdentity> hook = find();
            while (hook.isEmpty() && !ended) {
                LockSupport.parkNanos(LOOK_NS);
                hook = find();
            }
            if (hook.isPresent()) {
                StartedCommands.note(workDirectory, List.of(hook.get()));
            }
        } catch (IOException e) {
            LOG.warn("a service that takes up after this one will not know of its hook: {}", e.getMessage());
        }
    }

    private Optional<ProcessIdentity> find() {
        return ProcessHandle.current()
                .children()
                .filter(child -> ProcessTable.hasVariable(child.pid(), VARIABLE + "=" + mark, true))
                .findAny()
                .flatMap(child -> new ProcessTable().find((int) child.pid()));
    }

    /** The hook has ended. */
    @Override
    public void close() {
        boolean interrupted = false;
        // No interrupt: that would break off the writing of the note.
        ended = true;
        LockSupport.unpark(noter);
        long deadlineNs = System.nanoTime() + JOIN_NS;
        while (noter.isAlive() && System.nanoTime() - deadlineNs < 0) {
            try {
                noter.join(TimeUnit.NANOSECONDS.toMillis(LOOK_NS));
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (noter.isAlive()) {
            // A note that comes late is of a process that has ended, which whoever reads it sees.
            LOG.warn("{} hangs: the note of a hook that has ended may stay behind", workDirectory);
        }
        try {
            StartedCommands.forget(workDirectory);
        } catch (IOException e) {
            LOG.warn("the note of a hook that has ended stays in {}: {}", workDirectory, e.getMessage());
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Sees ended what an earlier run of the service has noted: it has the rest of a deadline, as counted from its
     * start, and is then killed with all that it started, as by the service that began it.
     *
     * @return whether nothing is left; if not, the log says why
     */
    static boolean endAbandoned(Path workDirectory, Duration deadline) {
        try {
            List<ProcessIdentity> noted = StartedCommands.read(workDirectory);
            ProcessTable table = new ProcessTable();
            List<ProcessIdentity> left = noted.stream().filter(table::isAlive).toList();
            if (!left.isEmpty()) {
                LOG.warn("a hook that the service before has started still runs: waiting for {}", left);
                long deadlineNs =
                        System.nanoTime() + rest(left.get(0), deadline).toNanos();
                while (left.stream().anyMatch(table::isAlive) && System.nanoTime() - deadlineNs < 0) {
                    if (Thread.currentThread().isInterrupted()) {
                        LOG.warn("told to end while a hook of the service before runs on");
                        return false;
                    }
                    LockSupport.parkNanos(WAIT_NS);
                }
                if (left.stream().anyMatch(table::isAlive)) {
                    LOG.error("{} has not ended within {} and is ended", left, deadline);
                    new AbandonedCommand(left).endAll();
                }
            }
            StartedCommands.forget(workDirectory);
            return true;
        } catch (IOException | CheckpointException e) {
            LOG.error("a hook of the service before may still run, so nothing is done for its job: {}", e.getMessage());
            return false;
        }
    }

    private static Duration rest(ProcessIdentity process, Duration deadline) {
        Instant now = Instant.now();
        Duration ran = ProcessHandle.of(process.pid())
                .flatMap(handle -> handle.info().startInstant())
                .map(start -> Duration.between(start, now))
                .filter(since -> !since.isNegative())
                .orElse(Duration.ZERO);
        return ran.compareTo(deadline) < 0 ? deadline.minus(ran) : Duration.ZERO;
    }
}
