package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.RankMap;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.source.JobHooks.JobNotes;
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
 * Runs the hooks of a migration's job. While a hook runs, a note has its process. If the service dies, its next run
 * waits for that hook, or kills it, before it runs another one for the job. Owned by the migration's worker.
 */
final class HookRunner {
    private static final Logger LOG = LoggerFactory.getLogger(HookRunner.class);
    private static final long WAIT_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** Deadline of a hook that is no longer in the configuration. */
    private static final Duration UNCONFIGURED_DEADLINE = Duration.ofSeconds(30);

    private final String migrationId;
    private final JobNotes job;
    private final NativePrograms programs;
    private final Path workDirectory;
    private boolean hasOrphan;

    /** @param recovered an earlier run of the service may have left a hook running */
    HookRunner(String migrationId, JobNotes job, SourceContext service, boolean recovered) {
        this.hasOrphan = recovered;
        this.migrationId = migrationId;
        this.job = job;
        this.programs = service.programs();
        this.workDirectory = service.settings().node().workDirectory().resolve("hooks-" + migrationId);
    }

    /** Returns the directory in which hooks run, and the fence command. */
    Path workDirectory() {
        return workDirectory;
    }

    /** Runs a hook, if the job has it. Throws if the hook fails. */
    void run(Optional<SiteCommand> hook) throws CheckpointException {
        if (hook.isPresent()) {
            run(hook.get(), Map.of());
        }
    }

    /** Runs the reconnect hook, if the job has it, with the node of every rank. */
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
                LOG.warn("the note of an ended hook could not be removed from {}: {}", workDirectory, e.getMessage());
            }
        }
    }

    private void note(ProcessIdentity hook) {
        try {
            OrphanedCommand.note(workDirectory, List.of(hook));
        } catch (IOException e) {
            LOG.warn("the running hook could not be noted for a restart of the service: {}", e.getMessage());
        }
    }

    /**
     * Ends a hook that an earlier run of the service left running. The hook has the rest of its deadline, counted from
     * its start. Then it is killed with all processes that it started, as by the service that began it.
     *
     * @return whether no such hook is left; if one is, the log has the reason
     */
    boolean endOrphaned() {
        hasOrphan = hasOrphan && !endNotedHook();
        return !hasOrphan;
    }

    private boolean endNotedHook() {
        JobHooks hooks = job.hooks();
        Duration longest = Stream.of(hooks.suspend(), hooks.resume(), hooks.reconnect())
                .flatMap(Optional::stream)
                .map(SiteCommand::deadline)
                .max(Comparator.naturalOrder())
                .orElse(UNCONFIGURED_DEADLINE);
        try {
            ProcessTable table = new ProcessTable();
            List<ProcessIdentity> left = OrphanedCommand.read(workDirectory).stream()
                    .filter(table::isAlive)
                    .toList();
            if (!left.isEmpty()) {
                LOG.warn("a hook of the previous service run still runs: waiting for {}", left);
                long deadlineNs =
                        System.nanoTime() + remaining(left.get(0), longest).toNanos();
                while (left.stream().anyMatch(table::isAlive) && System.nanoTime() - deadlineNs < 0) {
                    if (Thread.currentThread().isInterrupted()) {
                        LOG.warn("service ends while a hook of its previous run still runs");
                        return false;
                    }
                    LockSupport.parkNanos(WAIT_NS);
                }
                if (left.stream().anyMatch(table::isAlive)) {
                    LOG.error("{} has not ended within {}: killing it", left, longest);
                    new OrphanedCommand(left).endAll();
                }
            }
            OrphanedCommand.forget(workDirectory);
            return true;
        } catch (IOException | CheckpointException e) {
            LOG.error(
                    "a hook of the previous service run may still run, so its job is left unchanged:" + " {}",
                    e.getMessage());
            return false;
        }
    }

    private static Duration remaining(ProcessIdentity process, Duration deadline) {
        Instant now = Instant.now();
        Duration ran = ProcessHandle.of(process.pid())
                .flatMap(handle -> handle.info().startInstant())
                .map(start -> Duration.between(start, now))
                .filter(since -> !since.isNegative())
                .orElse(Duration.ZERO);
        return ran.compareTo(deadline) < 0 ? deadline.minus(ran) : Duration.ZERO;
    }
}
