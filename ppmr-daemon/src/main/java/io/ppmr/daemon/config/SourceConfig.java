package io.ppmr.daemon.config;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.JobUsers;
import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.part.ConfiguredParts;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.part.ServicePart.Tools;
import io.ppmr.daemon.service.HealthTrigger;
import io.ppmr.migration.source.JobBounds;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.migration.source.SourceSettings;
import io.ppmr.migration.source.SourceSettings.TransactionSettings;
import io.ppmr.migration.source.SpareNodes;
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
import org.tomlj.TomlArray;

/**
 * The configuration of a source, with its keys. Immutable.
 *
 * @param service what both roles' files say
 * @param settings the service's
 * @param jobs those that can be moved, by name
 * @param triggerJob the one that the triggers move, if they move one
 * @param health the health command, if there is one
 * @param parts what it says of the optional parts
 * @param rootsCommands that root runs, by what names them in the file
 */
public record SourceConfig(
        ServiceConfig service,
        SourceSettings settings,
        Map<String, ConfiguredJob> jobs,
        Optional<String> triggerJob,
        Optional<HealthTrigger.Settings> health,
        ConfiguredParts parts,
        Map<String, List<String>> rootsCommands) {
    private static final int MAX_CONNECTIONS = 64;
    private static final int MAX_ATTEMPTS = 100;
    private static final int MAX_IN_A_ROW = 1000;

    private static final ConfigSection TOP = ConfigSection.top("The service itself.", ServiceConfig.TOP);
    static final ConfigKey<Path> CONTROL_SOCKET = TOP.withDefault(
            "control_socket",
            ValueType.PATH,
            "/run/ppmr/source.sock",
            "the Unix socket that ppmr migrate, cancel and status talk to; at most 100 characters");
    private static final ConfigKey<String> TRIGGER_JOB = TOP.optional(
            "trigger_job", ValueType.TEXT, "the job that SIGUSR2 moves; where one job is configured, that one");
    static final ConfigKey<Path> JOURNAL = TOP.withDefault(
            "journal",
            ValueType.PATH,
            "/var/lib/ppmr/source-journal",
            "the folder of the journal: on a local disk that outlives the service");

    private static final ConfigSection TARGET = ConfigSection.once("target", "The spare node, or several.");
    private static final ConfigKey<InetSocketAddress> ADDRESS = TARGET.optional(
            "address", ValueType.ADDRESS, "where the spare node's target listens, if there is one spare node");
    private static final ConfigKey<List<InetSocketAddress>> ADDRESSES = TARGET.optional(
            "addresses",
            ValueType.ADDRESSES,
            "where the targets of several spare nodes listen, in the order in which they are asked; one that cannot be"
                    + " reached or refuses is passed over. Instead of address");
    private static final ConfigKey<List<String>> SPARES_COMMAND = TARGET.optional(
            "command",
            ValueType.WORDS,
            "a command that prints that list when a migration starts, one HOST:PORT a line, words without a shell."
                    + " Instead of address");
    private static final ConfigKey<Duration> SPARES_DEADLINE =
            TARGET.withDefault("command_deadline", ValueType.TIME, "10s", "how long that command may take");
    private static final ConfigKey<Integer> CONNECTIONS = TARGET.withDefault(
            "connections",
            ValueType.number(1, MAX_CONNECTIONS),
            4L,
            "how many connections carry the bytes; control has one of its own");
    private static final ConfigKey<Duration> CONNECT_DEADLINE = TARGET.withDefault(
            "connect_deadline", ValueType.TIME, "5s", "how long making a connection may take, with its handshake");

    private static final ConfigSection MIGRATION = ConfigSection.once("migration", "Bounds of a migration.");
    private static final ConfigKey<Duration> CHECKPOINT_DEADLINE =
            MIGRATION.withDefault("checkpoint_deadline", ValueType.TIME, "1h", "how long a checkpoint may take in all");
    private static final ConfigKey<Duration> DISCARD_DEADLINE = MIGRATION.withDefault(
            "discard_deadline",
            ValueType.TIME,
            "10m",
            "how long after a failure checkpointers that write from inside their processes may go on, while what they"
                    + " write is thrown away; past it they are ended, and their writes fail");
    private static final ConfigKey<Duration> DECISION_DEADLINE = MIGRATION.withDefault(
            "decision_deadline",
            ValueType.TIME,
            "2m",
            "how long a target that is lost after the originals ended is sought, to be told to go on");
    private static final ConfigKey<Duration> PAUSE_BUDGET = MIGRATION.withDefault(
            "pause_budget",
            ValueType.TIME,
            "10m",
            "how long a job may stand still; past it the migration is rolled back, unless a target has voted");
    private static final ConfigKey<Integer> ATTEMPTS = MIGRATION.withDefault(
            "attempts", ValueType.number(1, MAX_ATTEMPTS), 3L, "how many targets are tried in all");

    private static final ConfigKey<Long> MIN_RATE = MIGRATION.withDefault(
            "min_rate",
            ValueType.SIZE,
            "1m",
            "how many bytes a second the checkpoints of a job write at least, counted over any 30 s in which they could"
                    + " write and do not wait for the network or the target; below it the migration fails, 0 is no"
                    + " bound");

    private static final ConfigSection TRIGGERS =
            ConfigSection.once("triggers", "What starts a migration, beside SIGUSR2 and `ppmr migrate`.");
    private static final ConfigKey<List<String>> HEALTH = TRIGGERS.optional(
            "health",
            ValueType.WORDS,
            "a command that is asked again and again: status 0 says that this node is well, 1 to 125 that it is going;"
                    + " then trigger_job is moved. Words without a shell");
    private static final ConfigKey<Duration> HEALTH_INTERVAL =
            TRIGGERS.withDefault("health_interval", ValueType.TIME, "30s", "between two calls of it");
    private static final ConfigKey<Duration> HEALTH_DEADLINE = TRIGGERS.withDefault(
            "health_deadline", ValueType.TIME, "20s", "how long a call may take; a longer one is killed, not counted");
    private static final ConfigKey<Integer> HEALTH_FAILURES = TRIGGERS.withDefault(
            "health_failures",
            ValueType.number(1, MAX_IN_A_ROW),
            3L,
            "how many calls in a row must say that the node is going before the job is moved");
    private static final ConfigKey<Integer> HEALTH_RECOVERIES = TRIGGERS.withDefault(
            "health_recoveries",
            ValueType.number(1, MAX_IN_A_ROW),
            10L,
            "how many calls in a row must say that it is well, after a job was moved, before one can be moved again");
    private static final ConfigKey<Duration> HEALTH_REST = TRIGGERS.withDefault(
            "health_rest",
            ValueType.TIME,
            "10m",
            "how long after a migration that it started it starts no other, however the first one ended");
    private static final ConfigKey<Boolean> HEALTH_DRY_RUN = TRIGGERS.withDefault(
            "health_dry_run", ValueType.FLAG, false, "only say in the log when a job would be moved");

    private static final ConfigSection JOBS = ConfigSection.many("jobs", "A job whose processes can be moved.");
    private static final ConfigKey<Object> USER =
            JOBS.required("user", ValueType.NAME_OR_NUMBER, "whose processes they are");
    private static final ConfigKey<Object> GROUP = JOBS.optional(
            "group",
            ValueType.NAME_OR_NUMBER,
            "their group; without it the user's own. Needed where the user is a number that the node does not know");
    private static final ConfigKey<String> CHECKPOINTER =
            JOBS.required("checkpointer", ValueType.TEXT, "which [checkpointers.NAME] checkpoints them");
    private static final ConfigKey<TomlArray> RANKS =
            JOBS.required("ranks", ValueType.TABLES, "the job's processes on this node, one root process a rank");
    private static final ConfigKey<TomlArray> OTHERS = JOBS.optional(
            "others", ValueType.TABLES, "ranks on other nodes, for the reconnect hook: [{rank = 2, node = \"n2\"}]");
    private static final ConfigKey<List<String>> SUSPEND =
            JOBS.optional("suspend", ValueType.WORDS, "run before the first checkpoint: all ranks stop communicating");
    private static final ConfigKey<List<String>> RESUME =
            JOBS.optional("resume", ValueType.WORDS, "undoes suspend when the migration is called off");
    private static final ConfigKey<List<String>> RECONNECT = JOBS.optional(
            "reconnect", ValueType.WORDS, "run after the commit; PPMR_MAP names a file that says where each rank is");
    private static final ConfigKey<Duration> HOOK_DEADLINE =
            JOBS.withDefault("hook_deadline", ValueType.TIME, "30s", "how long each of the three may take");
    private static final ConfigKey<Path> KEEP = JOBS.optional(
            "keep",
            ValueType.PATH,
            "a directory of root's in which a copy of each migration's images is kept, for `ppmr restart`");

    private static final ConfigSection RANK_ENTRY = ConfigSection.many("ranks", "One entry of ranks.");
    private static final ConfigKey<Integer> RANK =
            RANK_ENTRY.required("rank", ValueType.number(0, Integer.MAX_VALUE), "its number in the job");
    private static final ConfigKey<Integer> PID = RANK_ENTRY.optional(
            "pid", ValueType.number(2, Integer.MAX_VALUE), "the PID of its root process on this node");
    private static final ConfigKey<Path> PID_FILE = RANK_ENTRY.optional(
            "pid_file",
            ValueType.PATH,
            "a file with that PID alone, read when a migration starts; a regular file of the job's user or of root;"
                    + " instead of pid");

    private static final ConfigSection OTHER_ENTRY = ConfigSection.many("others", "One entry of others.");
    private static final ConfigKey<Integer> OTHER_RANK = OTHER_ENTRY.add(RANK);
    private static final ConfigKey<String> NODE =
            OTHER_ENTRY.required("node", ValueType.TEXT, "the name or address of the node that it is on");
    static final ConfigRole ROLE = new ConfigRole(
            "source",
            TOP,
            ServiceConfig.withParts(
                    Side.SOURCE,
                    ServiceConfig.POOL,
                    TARGET,
                    MIGRATION,
                    ServiceConfig.FENCE,
                    FilesConfig.OF_SOURCE,
                    TRIGGERS,
                    ServiceConfig.METRICS,
                    CheckpointerConfig.SECTION,
                    JOBS),
            Stream.concat(Stream.of(RailConfig.OF_SOURCE, RANK_ENTRY), InstalledParts.entries(Side.SOURCE).stream())
                    .toList());

    public SourceConfig {
        jobs = Map.copyOf(jobs);
        rootsCommands = Map.copyOf(rootsCommands);
    }

    /** Returns the facts for the hooks of a job that an earlier run of the service has begun to move. */
    public JobNotes notes(String job, List<Integer> ranks) {
        ConfiguredJob configured = jobs.get(job);
        return configured == null
                ? new JobNotes(job, ranks, Map.of(), JobHooks.NONE)
                : new JobNotes(job, ranks, configured.others(), configured.hooks());
    }

    /** Reads a file on its node; throws with all its mistakes. */
    public static SourceConfig load(Path file) throws ConfigException {
        return read(new ConfigFile(file, true));
    }

    /** The configuration; what only its node knows is null where the file is read elsewhere. */
    static SourceConfig read(ConfigFile file) throws ConfigException {
        ConfigFile.Section top = ROLE.topOf(file);
        ServiceConfig service = ServiceConfig.read(file, top, CONTROL_SOCKET, JOURNAL, RailConfig.ofSource(top));
        ConfigFile.Section target = file.section(TARGET);
        int connections = target.get(CONNECTIONS);
        RailConfig.requireFewConnections(top, service.rails(), connections);
        ConfigFile.Section migration = file.section(MIGRATION);
        SourceSettings settings = new SourceSettings(
                service.mountPoint(),
                service.workDirectory(),
                service.pool(),
                service.key(),
                spares(target),
                connections,
                target.get(CONNECT_DEADLINE),
                migration.get(CHECKPOINT_DEADLINE),
                migration.get(DISCARD_DEADLINE),
                migration.get(DECISION_DEADLINE),
                service.silenceLimit(),
                new TransactionSettings(
                        service.journal(), migration.get(PAUSE_BUDGET), migration.get(ATTEMPTS), service.fence()),
                new JobBounds(service.rankFiles(), migration.get(MIN_RATE), JobBounds.USUAL.rateTime()),
                FilesConfig.ofSource(file));
        CheckpointerConfig tools = CheckpointerConfig.read(file);
        Map<String, Checkpointer> checkpointers = tools.create();
        Map<String, ConfiguredJob> jobs = jobs(file, checkpointers);
        Optional<String> trigger = Optional.ofNullable(triggerJob(top, jobs));
        ConfiguredParts parts =
                InstalledParts.read(file, Side.SOURCE, new Tools(checkpointers, tools.forAnnouncedJobs()));
        Optional<HealthTrigger.Settings> health =
                health(file.section(TRIGGERS), trigger.isPresent() || parts.takesJobs());
        file.requireGood();
        Map<String, List<String>> commands = service.rootsCommands(tools, parts);
        health.ifPresent(one -> commands.put("triggers.health", one.command()));
        if (settings.spares() instanceof SpareNodes.Printed printed) {
            commands.put("target.command", printed.command());
        }
        return new SourceConfig(service, settings, jobs, trigger, health, parts, commands);
    }

    /** The health command, if there is one. Without {@code trigger_job} it moves the job that users announce. */
    private static Optional<HealthTrigger.Settings> health(ConfigFile.Section section, boolean movesJobs) {
        List<String> command = section.get(HEALTH);
        HealthTrigger.Settings settings = new HealthTrigger.Settings(
                command == null ? List.of() : command,
                section.get(HEALTH_INTERVAL),
                section.get(HEALTH_DEADLINE),
                section.get(HEALTH_FAILURES),
                section.get(HEALTH_RECOVERIES),
                section.get(HEALTH_REST),
                section.get(HEALTH_DRY_RUN));
        if (command == null) {
            return Optional.empty();
        }
        if (command.isEmpty()) {
            section.bad(HEALTH, "is empty: name the command, such as [\"/usr/sbin/nhc\"], or take it out");
        } else if (!movesJobs) {
            section.bad(HEALTH, "has no job to move: set trigger_job, or take health out");
        }
        return Optional.of(settings);
    }

    private static SpareNodes spares(ConfigFile.Section target) {
        InetSocketAddress one = target.get(ADDRESS);
        List<InetSocketAddress> several = target.get(ADDRESSES);
        List<String> command = target.get(SPARES_COMMAND);
        Duration deadline = target.get(SPARES_DEADLINE);
        List<ConfigKey<?>> given = Stream.of(ADDRESS, ADDRESSES, SPARES_COMMAND)
                .filter(target::has)
                .toList();
        if (given.size() != 1) {
            target.bad(
                    given.isEmpty() ? ADDRESS : given.get(1),
                    given.isEmpty()
                            ? "is missing; it must be "
                                    + ADDRESS.type().form()
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
        if (command != null) {
            return new SpareNodes.Printed(command, deadline);
        }
        return several != null ? new SpareNodes.Listed(several) : one == null ? null : SpareNodes.of(one);
    }

    private static Map<String, ConfiguredJob> jobs(ConfigFile file, Map<String, Checkpointer> tools) {
        Map<String, ConfiguredJob> jobs = new LinkedHashMap<>();
        file.sections(JOBS).forEach((name, section) -> {
            Object group = section.get(GROUP);
            JobUser user = section.here(USER, named -> JobUsers.find(named, group));
            String checkpointer = section.get(CHECKPOINTER);
            if (checkpointer != null && !file.names(CheckpointerConfig.SECTION).contains(checkpointer)) {
                section.bad(
                        CHECKPOINTER,
                        "there is no [checkpointers." + checkpointer + "]; "
                                + (tools.isEmpty() ? "write one" : "known are " + String.join(", ", tools.keySet())));
            }
            jobs.put(
                    name,
                    new ConfiguredJob(
                            name,
                            user,
                            tools.get(checkpointer),
                            ranks(section),
                            others(section),
                            hooks(section, user),
                            List.of(),
                            Optional.ofNullable(section.get(KEEP)),
                            Map.of()));
        });
        return jobs;
    }

    private static List<ConfiguredJob.RankSource> ranks(ConfigFile.Section job) {
        List<ConfiguredJob.RankSource> ranks = new ArrayList<>();
        Set<Integer> seen = new HashSet<>();
        List<ConfigFile.Section> entries = job.tables(RANKS, RANK_ENTRY);
        for (ConfigFile.Section entry : entries) {
            Integer rank = entry.get(RANK);
            Integer pid = entry.get(PID);
            Path pidFile = entry.get(PID_FILE);
            if (rank != null && !seen.add(rank)) {
                entry.bad(RANK, "rank " + rank + " stands there twice: number each process once");
            }
            if (entry.has(PID) == entry.has(PID_FILE)) {
                entry.bad(RANK, "needs either pid or pid_file");
            } else if (rank != null && (pid != null || pidFile != null)) {
                ranks.add(new ConfiguredJob.RankSource(rank, pid == null ? 0 : pid, pidFile));
            }
        }
        return ranks;
    }

    private static Map<Integer, String> others(ConfigFile.Section job) {
        Map<Integer, String> others = new TreeMap<>();
        for (ConfigFile.Section entry : job.tables(OTHERS, OTHER_ENTRY)) {
            Integer rank = entry.get(OTHER_RANK);
            String node = entry.get(NODE);
            if (node != null && !node.matches("[^\\s\\p{Cntrl}]{1,255}")) {
                entry.bad(NODE, "must be a node's name or address, without spaces in it");
            } else if (rank != null && node != null && others.put(rank, node) != null) {
                entry.bad(OTHER_RANK, "rank " + rank + " stands there twice: name each rank once");
            }
        }
        return others;
    }

    private static JobHooks hooks(ConfigFile.Section job, JobUser user) {
        Duration deadline = job.get(HOOK_DEADLINE);
        return new JobHooks(
                hook(job, SUSPEND, user, deadline),
                hook(job, RESUME, user, deadline),
                hook(job, RECONNECT, user, deadline));
    }

    private static Optional<SiteCommand> hook(
            ConfigFile.Section job, ConfigKey<List<String>> key, JobUser user, Duration deadline) {
        List<String> words = job.get(key);
        return words == null
                ? Optional.empty()
                : Optional.of(new SiteCommand(key.name(), words, Optional.ofNullable(user), deadline));
    }

    private static String triggerJob(ConfigFile.Section top, Map<String, ConfiguredJob> jobs) {
        String trigger = top.get(TRIGGER_JOB);
        if (trigger == null) {
            if (jobs.size() != 1) {
                return null;
            }
            String only = jobs.keySet().iterator().next();
            top.derived(TRIGGER_JOB, only, "the only job");
            return only;
        }
        if (!jobs.containsKey(trigger)) {
            top.bad(
                    TRIGGER_JOB,
                    "there is no [jobs." + trigger + "]"
                            + (jobs.isEmpty() ? ": write one" : "; known are " + String.join(", ", jobs.keySet())));
        }
        return trigger;
    }
}
