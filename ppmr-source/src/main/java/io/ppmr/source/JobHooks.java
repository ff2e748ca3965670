package io.ppmr.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.RankMap;
import io.ppmr.checkpoint.SiteCommand;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The commands by which a job's own library is told to stand still and to go on (papers 2 and 3: suspend drains and
 * closes
 * its endpoints, reconnect opens them to where the ranks are now). Each runs as the job's user, to its deadline.
 *
 * @param suspend before the first checkpoint: all ranks stop communicating, also those that stay
 * @param resume undoes it when the migration is called off
 * @param reconnect after the commit: is told where every rank is
 */
public record JobHooks(Optional<SiteCommand> suspend, Optional<SiteCommand> resume, Optional<SiteCommand> reconnect) {
    /** A job that needs none. */
    public static final JobHooks NONE = new JobHooks(Optional.empty(), Optional.empty(), Optional.empty());

    /** Of a hook that no configuration names any more. */
    private static final Duration FORGOTTEN_DEADLINE = Duration.ofSeconds(30);

    /** Runs a hook, if the job has it; throws if it fails. */
    static void run(
            Optional<SiteCommand> hook, String migrationId, JobNotes job, Path workDirectory, NativePrograms programs)
            throws CheckpointException {
        if (hook.isPresent()) {
            try (RunningHook noted = new RunningHook(hook.get(), workDirectory)) {
                hook.get().run(environment(migrationId, job, noted), workDirectory, programs);
            }
        }
    }

    /** Runs the reconnect hook, if the job has it; see {@link RankMap#tell}. */
    static void reconnect(String migrationId, JobNotes job, RankMap map, Path workDirectory, NativePrograms programs)
            throws CheckpointException, IOException {
        Optional<SiteCommand> hook = job.hooks().reconnect();
        if (hook.isPresent()) {
            try (RunningHook noted = new RunningHook(hook.get(), workDirectory)) {
                map.tell(hook.get(), environment(migrationId, job, noted), workDirectory, programs);
            }
        }
    }

    /**
     * Sees ended a hook that an earlier run of the service has left running; whether none is left. See
     * {@link RunningHook}.
     */
    boolean endAbandoned(Path workDirectory) {
        Duration longest = Stream.of(suspend, resume, reconnect)
                .flatMap(Optional::stream)
                .map(SiteCommand::deadline)
                .max(Comparator.naturalOrder())
                .orElse(FORGOTTEN_DEADLINE);
        return RunningHook.endAbandoned(workDirectory, longest);
    }

    private static Map<String, String> environment(String migrationId, JobNotes job, RunningHook noted) {
        Map<String, String> environment = new HashMap<>();
        environment.put("PPMR_MIGRATION", migrationId);
        environment.put(RunningHook.VARIABLE, noted.mark());
        environment.put("PPMR_JOB", job.name());
        environment.put("PPMR_RANKS", job.ranks().stream().map(String::valueOf).collect(Collectors.joining(" ")));
        return environment;
    }
}
