package io.ppmr.cli.config;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.cli.announce.AnnouncedJobs;
import io.ppmr.cli.control.ControlSettings;
import io.ppmr.cli.service.HealthSettings;
import io.ppmr.source.JobHooks;
import io.ppmr.source.JobNotes;
import io.ppmr.source.SourceSettings;
import io.ppmr.source.SpareNodes;
import io.ppmr.source.TransactionSettings;
import io.ppmr.transport.TransportWish;
import io.ppmr.transport.auth.PreSharedKey;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * What a source's configuration file says, resolved. Immutable.
 *
 * @param settings the service's
 * @param control where {@code ppmr migrate} reaches it
 * @param jobs those that can be moved, by name
 * @param triggerJob the one that the triggers move, if they move one
 * @param health the health command, if there is one
 * @param metrics where its meters are shown, if they are
 * @param transport how the bytes may travel
 * @param announced those that users announce while the service runs
 * @param warmUpMigrations small migrations that it makes within itself before it is ready
 */
public record SourceConfig(
        SourceSettings settings,
        ControlSettings control,
        Map<String, ConfiguredJob> jobs,
        Optional<String> triggerJob,
        Optional<HealthSettings> health,
        Optional<InetSocketAddress> metrics,
        TransportWish transport,
        AnnouncedJobs announced,
        int warmUpMigrations) {

    public SourceConfig {
        jobs = Map.copyOf(jobs);
    }

    /** What hooks of a job are told that an earlier run of the service has begun to move. */
    public JobNotes notes(String job, List<Integer> ranks) {
        ConfiguredJob configured = jobs.get(job);
        return configured == null
                ? new JobNotes(job, ranks, Map.of(), JobHooks.NONE)
                : new JobNotes(job, ranks, configured.others(), configured.hooks());
    }

    /** Reads a file on its node; throws with all its mistakes. */
    public static SourceConfig load(Path file) throws ConfigException {
        return new Reader(new ConfigFile(file, true)).read();
    }

    /**
     * What a file means; throws with all its mistakes.
     *
     * @param here whether this is its node; if not, its key, its users and hosts are not looked for
     */
    public static ResolvedValues check(Path file, boolean here) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, here);
        new Reader(opened).read();
        return opened.resolved();
    }

    private static final class Reader {
        private final ConfigFile file;

        Reader(ConfigFile file) {
            this.file = file;
        }

        /** The configuration; null where it was only checked, away from its node. */
        SourceConfig read() throws ConfigException {
            ConfigFile.Section top = file.top(ConfigRole.SOURCE);
            Path mount = top.get(CommonKeys.MOUNT);
            Path work = top.get(CommonKeys.WORK_DIRECTORY);
            Path announcements = top.get(SourceKeys.ANNOUNCEMENTS);
            ControlSettings control = ConfiguredControl.read(file, top, SourceKeys.CONTROL_SOCKET);
            Duration silence = top.get(CommonKeys.SILENCE_LIMIT);
            TransportWish transport = top.get(CommonKeys.TRANSPORT);
            Integer warmUpMigrations = top.get(CommonKeys.WARM_UP_MIGRATIONS);
            PreSharedKey key = CommonValues.key(file, top);
            CommonValues.requireApart(top, mount, work);
            PoolGeometry pool = CommonValues.pool(file);

            ConfigFile.Section target = file.section(SourceKeys.TARGET);
            SpareNodes spares = spares(target);
            Integer connections = target.get(SourceKeys.CONNECTIONS);
            Duration connect = target.get(SourceKeys.CONNECT_DEADLINE);
            ConfigFile.Section migration = file.section(SourceKeys.MIGRATION);
            Duration checkpoint = migration.get(SourceKeys.CHECKPOINT_DEADLINE);
            Duration discard = migration.get(SourceKeys.DISCARD_DEADLINE);
            Duration decision = migration.get(SourceKeys.DECISION_DEADLINE);
            Path journal = top.get(SourceKeys.JOURNAL);
            Duration pause = migration.get(SourceKeys.PAUSE_BUDGET);
            Integer attempts = migration.get(SourceKeys.ATTEMPTS);
            Optional<Fence> fence = CommonValues.fence(file);

            Checkpointers.Read tools = Checkpointers.read(file);
            Map<String, PlannedJob> planned = jobs(tools.settings());
            String trigger = triggerJob(top, planned);
            Optional<HealthSettings> health = ConfiguredTriggers.health(file);
            // Without one the job that users announce is moved.
            if (health.isPresent() && trigger == null && announcements == null) {
                file.section(SourceKeys.TRIGGERS)
                        .bad(SourceKeys.HEALTH, "has no job to move: set trigger_job, or take health out");
            }
            Optional<InetSocketAddress> metrics = CommonValues.metrics(file);
            List<Mistake> mistakes = file.mistakes();
            if (!mistakes.isEmpty()) {
                throw new ConfigException(mistakes);
            }
            if (!file.here()) {
                return null;
            }
            Map<String, Checkpointer> checkpointers = Checkpointers.create(tools.settings());
            Map<String, ConfiguredJob> jobs = configured(planned, checkpointers);
            SourceSettings settings = new SourceSettings(
                    mount,
                    work,
                    pool,
                    key,
                    spares,
                    connections,
                    connect,
                    checkpoint,
                    discard,
                    decision,
                    silence,
                    new TransactionSettings(journal, pause, attempts, fence));
            AnnouncedJobs announced =
                    new AnnouncedJobs(Optional.ofNullable(announcements), checkpointers, tools.forAnnouncedJobs());
            return new SourceConfig(
                    settings,
                    control,
                    jobs,
                    Optional.ofNullable(trigger),
                    health,
                    metrics,
                    transport,
                    announced,
                    warmUpMigrations);
        }

        private static Map<String, ConfiguredJob> configured(
                Map<String, PlannedJob> planned, Map<String, Checkpointer> checkpointers) {
            Map<String, ConfiguredJob> jobs = new LinkedHashMap<>();
            planned.forEach((name, job) -> jobs.put(
                    name,
                    new ConfiguredJob(
                            name,
                            job.user(),
                            checkpointers.get(job.checkpointer()),
                            job.ranks(),
                            job.others(),
                            job.hooks(),
                            List.of(),
                            Optional.ofNullable(job.keep()))));
            return jobs;
        }

        private SpareNodes spares(ConfigFile.Section target) {
            InetSocketAddress one = target.get(SourceKeys.ADDRESS);
            List<InetSocketAddress> several = target.get(SourceKeys.ADDRESSES);
            List<String> command = target.get(SourceKeys.SPARES_COMMAND);
            Duration deadline = target.get(SourceKeys.SPARES_DEADLINE);
            List<ConfigKey<?>> given = Stream.of(SourceKeys.ADDRESS, SourceKeys.ADDRESSES, SourceKeys.SPARES_COMMAND)
                    .filter(target::has)
                    .toList();
            if (given.size() != 1) {
                target.bad(
                        given.isEmpty() ? SourceKeys.ADDRESS : given.get(1),
                        given.isEmpty()
                                ? "is missing; it must be "
                                        + SourceKeys.ADDRESS.type().form()
                                        + ". For several spare nodes give addresses or command instead"
                                : "stands beside " + given.get(0).name() + "; give one of address, addresses, command");
                return null;
            }
            if ((command != null && command.isEmpty()) || (several != null && several.isEmpty())) {
                target.bad(
                        given.get(0),
                        "is empty, so nothing could be moved; it must be "
                                + given.get(0).type().form());
            }
            if (command != null && deadline != null) {
                return new SpareNodes.Printed(command, deadline);
            }
            return several != null ? new SpareNodes.Listed(several) : one == null ? null : SpareNodes.of(one);
        }

        private record PlannedJob(
                JobUser user,
                String checkpointer,
                List<ConfiguredJob.RankSource> ranks,
                Map<Integer, String> others,
                JobHooks hooks,
                Path keep) {}

        private Map<String, PlannedJob> jobs(Map<String, CheckpointerSettings> tools) {
            Map<String, PlannedJob> jobs = new LinkedHashMap<>();
            file.sections(SourceKeys.JOBS).forEach((name, section) -> {
                Object user = section.get(SourceKeys.USER);
                Object group = section.get(SourceKeys.GROUP);
                JobUser jobUser = null;
                if (user != null && file.here()) {
                    try {
                        jobUser = JobUsers.find(user, group);
                    } catch (BadValueException e) {
                        section.bad(SourceKeys.USER, e.getMessage());
                    }
                }
                String checkpointer = section.get(SourceKeys.CHECKPOINTER);
                if (checkpointer != null
                        && !file.names(CheckpointerKeys.SECTION).contains(checkpointer)) {
                    section.bad(
                            SourceKeys.CHECKPOINTER,
                            "there is no [checkpointers." + checkpointer + "]; "
                                    + (tools.isEmpty()
                                            ? "write one"
                                            : "known are " + String.join(", ", tools.keySet())));
                }
                jobs.put(
                        name,
                        new PlannedJob(
                                jobUser,
                                checkpointer,
                                ranks(section),
                                others(section),
                                hooks(section, jobUser),
                                section.get(SourceKeys.KEEP)));
            });
            return jobs;
        }

        private List<ConfiguredJob.RankSource> ranks(ConfigFile.Section job) {
            List<ConfiguredJob.RankSource> ranks = new ArrayList<>();
            Set<Integer> seen = new HashSet<>();
            List<ConfigFile.Section> entries = job.tables(SourceKeys.RANKS, SourceKeys.RANK_ENTRY);
            for (ConfigFile.Section entry : entries) {
                Integer rank = entry.get(SourceKeys.RANK);
                Integer pid = entry.get(SourceKeys.PID);
                Path pidFile = entry.get(SourceKeys.PID_FILE);
                if (rank != null && !seen.add(rank)) {
                    entry.bad(SourceKeys.RANK, "rank " + rank + " stands there twice: number each process once");
                }
                if (entry.has(SourceKeys.PID) == entry.has(SourceKeys.PID_FILE)) {
                    entry.bad(SourceKeys.RANK, "needs either pid or pid_file");
                } else if (rank != null && (pid != null || pidFile != null)) {
                    ranks.add(new ConfiguredJob.RankSource(rank, pid == null ? 0 : pid, pidFile));
                }
            }
            return ranks;
        }

        private static Map<Integer, String> others(ConfigFile.Section job) {
            Map<Integer, String> others = new TreeMap<>();
            for (ConfigFile.Section entry : job.tables(SourceKeys.OTHERS, SourceKeys.OTHER_ENTRY)) {
                Integer rank = entry.get(SourceKeys.RANK);
                String node = entry.get(SourceKeys.NODE);
                if (rank != null && node != null && others.put(rank, node) != null) {
                    entry.bad(SourceKeys.RANK, "rank " + rank + " stands there twice: name each rank once");
                }
            }
            return others;
        }

        private static JobHooks hooks(ConfigFile.Section job, JobUser user) {
            Duration deadline = job.get(SourceKeys.HOOK_DEADLINE);
            return new JobHooks(
                    hook(job, SourceKeys.SUSPEND, user, deadline),
                    hook(job, SourceKeys.RESUME, user, deadline),
                    hook(job, SourceKeys.RECONNECT, user, deadline));
        }

        private static Optional<SiteCommand> hook(
                ConfigFile.Section job, ConfigKey<List<String>> key, JobUser user, Duration deadline) {
            List<String> words = job.get(key);
            return words == null
                    ? Optional.empty()
                    : Optional.of(new SiteCommand(key.name(), words, Optional.ofNullable(user), deadline));
        }

        private String triggerJob(ConfigFile.Section top, Map<String, PlannedJob> jobs) {
            String trigger = top.get(SourceKeys.TRIGGER_JOB);
            if (trigger == null) {
                if (jobs.size() != 1) {
                    return null;
                }
                String only = jobs.keySet().iterator().next();
                top.derived(SourceKeys.TRIGGER_JOB, only, "the only job");
                return only;
            }
            if (!jobs.containsKey(trigger)) {
                top.bad(
                        SourceKeys.TRIGGER_JOB,
                        "there is no [jobs." + trigger + "]"
                                + (jobs.isEmpty() ? ": write one" : "; known are " + String.join(", ", jobs.keySet())));
            }
            return trigger;
        }
    }
}
