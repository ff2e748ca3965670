package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.RankMap;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs the hooks of a migration's job. While one runs its process is noted, so that a service that finds this one dead
 * waits for it, or ends it, before it runs another for the same job. Owned by the migration's worker.
 */
final class HookRunner {
    private static final Logger LOG = LoggerFactory.getLogger(HookRunner.class);
    private static final long WAIT_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** The name of a hook that is no longer in the configuration. */
    private static final Duration FORGOTTEN_DEADLINE = Duration.ofSeconds(30);

    private final String migrationId;
    private final JobNotes job;
    private final NativePrograms programs;
    private final Path workDirectory;
    private boolean abandoned;

    /** @param takenUp an earlier run of the service may have left a hook running */
    HookRunner(String migrationId, JobNotes job, SourceContext service, boolean takenUp) {
        this.abandoned = takenUp;
        this.migrationId = migrationId;
        this.job = job;
        this.programs = service.programs();
        this.workDirectory = service.settings().node().workDirectory().resolve("hooks-" + migrationId);
    }

    /** Returns the directory in which hooks run, and the fence command. */
    Path workDirectory() {
        return workDirectory;
    }

    /** Runs a hook, if the job has it; throws if it fails. */
    void run(Optional<SiteCommand> hook) throws CheckpointException {
        if (hook.isPresent()) {
            run(hook.get(), Map.of());
        }
    }

    /** Runs the reconnect hook, if the job has it, and tells it where every rank is. */
    void reconnect(RankMap map) throws CheckpointException, IOException {
        if (job.hooks().reconnect().isPresent()) {
            run(job.hooks().reconnect().get(), map.write(workDirectory));
        }
    }

    private void run(SiteCommand hook, Map<String, String> more) throws CheckpointException {
        Map<String, String> environment = new HashMap<>(more);
        environment.put("PPMR_MIGRATION", migrationId);
        environment.put(
                "PPMR_HOOK", workDirectory.toAbsolutePath().resolve(hook.name()).toString());
        environment.put("PPMR_JOB", job.name());
        environment.put("PPMR_RANKS", job.ranks().stream().map(String::valueOf).collect(Collectors.joining(" ")));
        try {
            hook.run(environment, workDirectory, programs, this::note);
        } finally {
            try {
                OrphanedCommand.forget(workDirectory);
            } catch (IOException e) {
                LOG.warn("the note of a hook that has ended stays in {}: {}", workDirectory, e.getMessage());
            }
        }
    }

    private void note(ProcessIdentity hook) {
        try {
            OrphanedCommand.note(workDirectory, List.of(hook));
        } catch (IOException e) {
            LOG.warn("a service that recovers after this one will not know of its hook: {}", e.getMessage());
        }
    }

    /**
     * Sees ended a hook that an earlier run of the service has left running: it has the rest of its deadline, as
     * counted from its start, and is then killed with all that it started, as by the service that began it.
     *
     * @return whether none is left; if one is, the log says why
     */
    boolean endAbandoned() {
        abandoned = abandoned && !endNoted();
        return !abandoned;
    }

    private boolean endNoted() {
        JobHooks hooks = job.hooks();
        Duration longest = Stream.of(hooks.suspend(), hooks.resume(), hooks.reconnect())
                .flatMap(Optional::stream)
                .map(SiteCommand::deadline)
                .max(Comparator.naturalOrder())
                .orElse(FORGOTTEN_DEADLINE);
        try {
            ProcessTable table = new ProcessTable();
            List<ProcessIdentity> left = OrphanedCommand.read(workDirectory).stream()
                    .filter(table::isAlive)
                    .toList();
            if (!left.isEmpty()) {
                LOG.warn("a hook that the service before has started still runs: waiting for {}", left);
                long deadlineNs = System.nanoTime() + rest(left.get(0), longest).toNanos();
                while (left.stream().anyMatch(table::isAlive) && System.nanoTime() - deadlineNs < 0) {
                    if (Thread.currentThread().isInterrupted()) {
                        LOG.warn("told to end while a hook of the service before runs on");
                        return false;
                    }
                    LockSupport.parkNanos(WAIT_NS);
                }
                if (left.stream().anyMatch(table::isAlive)) {
                    LOG.error("{} has not ended within {} and is ended", left, longest);
                    new OrphanedCommand(left).endAll();
                }
            }
            OrphanedCommand.forget(workDirectory);
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
