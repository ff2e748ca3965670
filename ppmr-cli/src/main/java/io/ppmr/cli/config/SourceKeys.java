package io.ppmr.cli.config;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.tomlj.TomlArray;

/** The keys of a source's configuration. */
public final class SourceKeys {
    private static final int MAX_CONNECTIONS = 64;
    private static final int MAX_ATTEMPTS = 100;

    public static final ConfigKey<Path> CONTROL_SOCKET = ConfigKey.withDefault(
            "control_socket",
            ValueTypes.PATH,
            "/run/ppmr/source.sock",
            "the Unix socket that ppmr migrate, cancel and status talk to; at most 100 characters");
    public static final ConfigKey<String> TRIGGER_JOB = ConfigKey.optional(
            "trigger_job", ValueTypes.TEXT, "the job that SIGUSR2 moves; where one job is configured, that one");
    public static final ConfigKey<Path> ANNOUNCEMENTS = ConfigKey.optional(
            "announcements",
            ValueTypes.PATH,
            "a directory in which users announce their jobs (Slurm); without it none are taken");
    public static final ConfigKey<Path> JOURNAL = ConfigKey.withDefault(
            "journal",
            ValueTypes.PATH,
            "/var/lib/ppmr/source-journal",
            "the folder of the journal: on a local disk that outlives the service");
    public static final ConfigSection TOP = new ConfigSection(
            "",
            false,
            "The service itself.",
            List.of(
                    CommonKeys.MOUNT,
                    CommonKeys.WORK_DIRECTORY,
                    CONTROL_SOCKET,
                    JOURNAL,
                    CommonKeys.CONTROL_GROUP,
                    CommonKeys.STATUS_FOR_ALL,
                    CommonKeys.KEY_FILE,
                    CommonKeys.SILENCE_LIMIT,
                    CommonKeys.TRANSPORT,
                    CommonKeys.WARM_UP_MIGRATIONS,
                    TRIGGER_JOB,
                    ANNOUNCEMENTS));

    public static final ConfigKey<InetSocketAddress> ADDRESS = ConfigKey.optional(
            "address", ValueTypes.ADDRESS, "where the spare node's target listens, if there is one spare node");
    public static final ConfigKey<List<InetSocketAddress>> ADDRESSES = ConfigKey.optional(
            "addresses",
            ValueTypes.ADDRESSES,
            "where the targets of several spare nodes listen, in the order in which they are asked; one that cannot be"
                    + " reached or refuses is passed over. Instead of address");
    public static final ConfigKey<List<String>> SPARES_COMMAND = ConfigKey.optional(
            "command",
            ValueTypes.WORDS,
            "a command that prints that list when a migration starts, one HOST:PORT a line, words without a shell."
                    + " Instead of address");
    public static final ConfigKey<Duration> SPARES_DEADLINE =
            ConfigKey.withDefault("command_deadline", ValueTypes.TIME, "10s", "how long that command may take");
    public static final ConfigKey<Integer> CONNECTIONS = ConfigKey.withDefault(
            "connections",
            ValueTypes.number(1, MAX_CONNECTIONS),
            4L,
            "how many connections carry the bytes; control has one of its own");
    public static final ConfigKey<Duration> CONNECT_DEADLINE = ConfigKey.withDefault(
            "connect_deadline", ValueTypes.TIME, "5s", "how long making a connection may take, with its handshake");
    public static final ConfigSection TARGET = new ConfigSection(
            "target",
            false,
            "The spare node, or several.",
            List.of(ADDRESS, ADDRESSES, SPARES_COMMAND, SPARES_DEADLINE, CONNECTIONS, CONNECT_DEADLINE));

    public static final ConfigKey<Duration> CHECKPOINT_DEADLINE = ConfigKey.withDefault(
            "checkpoint_deadline", ValueTypes.TIME, "1h", "how long a checkpoint may take in all");
    public static final ConfigKey<Duration> DISCARD_DEADLINE = ConfigKey.withDefault(
            "discard_deadline",
            ValueTypes.TIME,
            "10m",
            "how long after a failure checkpointers that write from inside their processes may go on, while what they"
                    + " write is thrown away; past it they are ended, and their writes fail");
    public static final ConfigKey<Duration> DECISION_DEADLINE = ConfigKey.withDefault(
            "decision_deadline",
            ValueTypes.TIME,
            "2m",
            "how long a target that is lost after the originals ended is sought, to be told to go on");
    public static final ConfigKey<Duration> PAUSE_BUDGET = ConfigKey.withDefault(
            "pause_budget",
            ValueTypes.TIME,
            "10m",
            "how long a job may stand still; past it the migration is rolled back, unless a target has voted");
    public static final ConfigKey<Integer> ATTEMPTS = ConfigKey.withDefault(
            "attempts", ValueTypes.number(1, MAX_ATTEMPTS), 3L, "how many targets are tried in all");
    public static final ConfigSection MIGRATION = new ConfigSection(
            "migration",
            false,
            "Bounds of a migration.",
            List.of(CHECKPOINT_DEADLINE, DISCARD_DEADLINE, DECISION_DEADLINE, PAUSE_BUDGET, ATTEMPTS));

    private static final int MAX_IN_A_ROW = 1000;

    public static final ConfigKey<List<String>> HEALTH = ConfigKey.optional(
            "health",
            ValueTypes.WORDS,
            "a command that is asked again and again: status 0 says that this node is well, 1 to 125 that it is going;"
                    + " then trigger_job is moved. Words without a shell");
    public static final ConfigKey<Duration> HEALTH_INTERVAL =
            ConfigKey.withDefault("health_interval", ValueTypes.TIME, "30s", "between two calls of it");
    public static final ConfigKey<Duration> HEALTH_DEADLINE = ConfigKey.withDefault(
            "health_deadline", ValueTypes.TIME, "20s", "how long a call may take; a longer one is killed, not counted");
    public static final ConfigKey<Integer> HEALTH_FAILURES = ConfigKey.withDefault(
            "health_failures",
            ValueTypes.number(1, MAX_IN_A_ROW),
            3L,
            "how many calls in a row must say that the node is going before the job is moved");
    public static final ConfigKey<Integer> HEALTH_RECOVERIES = ConfigKey.withDefault(
            "health_recoveries",
            ValueTypes.number(1, MAX_IN_A_ROW),
            10L,
            "how many calls in a row must say that it is well, after a job was moved, before one can be moved again");
    public static final ConfigKey<Duration> HEALTH_REST = ConfigKey.withDefault(
            "health_rest",
            ValueTypes.TIME,
            "10m",
            "how long after a migration that it started it starts no other, however the first one ended");
    public static final ConfigKey<Boolean> HEALTH_DRY_RUN = ConfigKey.withDefault(
            "health_dry_run", ValueTypes.FLAG, false, "only say in the log when a job would be moved");
    public static final ConfigSection TRIGGERS = new ConfigSection(
            "triggers",
            false,
            "What starts a migration, beside SIGUSR2 and `ppmr migrate`.",
            List.of(
                    HEALTH,
                    HEALTH_INTERVAL,
                    HEALTH_DEADLINE,
                    HEALTH_FAILURES,
                    HEALTH_RECOVERIES,
                    HEALTH_REST,
                    HEALTH_DRY_RUN));

    public static final ConfigKey<Object> USER =
            ConfigKey.required("user", ValueTypes.NAME_OR_NUMBER, "whose processes they are");
    public static final ConfigKey<Object> GROUP = ConfigKey.optional(
            "group",
            ValueTypes.NAME_OR_NUMBER,
            "their group; without it the user's own. Needed where the user is a number that the node does not know");
    public static final ConfigKey<String> CHECKPOINTER =
            ConfigKey.required("checkpointer", ValueTypes.TEXT, "which [checkpointers.NAME] checkpoints them");
    public static final ConfigKey<TomlArray> RANKS =
            ConfigKey.required("ranks", ValueTypes.TABLES, "the job's processes on this node, one root process a rank");
    public static final ConfigKey<TomlArray> OTHERS = ConfigKey.optional(
            "others", ValueTypes.TABLES, "ranks on other nodes, for the reconnect hook: [{rank = 2, node = \"n2\"}]");
    public static final ConfigKey<List<String>> SUSPEND = ConfigKey.optional(
            "suspend", ValueTypes.WORDS, "run before the first checkpoint: all ranks stop communicating");
    public static final ConfigKey<List<String>> RESUME =
            ConfigKey.optional("resume", ValueTypes.WORDS, "undoes suspend when the migration is called off");
    public static final ConfigKey<List<String>> RECONNECT = ConfigKey.optional(
            "reconnect", ValueTypes.WORDS, "run after the commit; PPMR_MAP names a file that says where each rank is");
    public static final ConfigKey<Duration> HOOK_DEADLINE =
            ConfigKey.withDefault("hook_deadline", ValueTypes.TIME, "30s", "how long each of the three may take");
    public static final ConfigKey<Path> KEEP = ConfigKey.optional(
            "keep",
            ValueTypes.PATH,
            "a directory of root's in which a copy of each migration's images is kept, for `ppmr restart`");
    public static final ConfigSection JOBS = new ConfigSection(
            "jobs",
            true,
            "A job whose processes can be moved.",
            List.of(USER, GROUP, CHECKPOINTER, RANKS, OTHERS, SUSPEND, RESUME, RECONNECT, HOOK_DEADLINE, KEEP));

    public static final ConfigKey<Integer> RANK =
            ConfigKey.required("rank", ValueTypes.number(0, Integer.MAX_VALUE), "its number in the job");
    public static final ConfigKey<Integer> PID = ConfigKey.optional(
            "pid", ValueTypes.number(2, Integer.MAX_VALUE), "the PID of its root process on this node");
    public static final ConfigKey<Path> PID_FILE = ConfigKey.optional(
            "pid_file",
            ValueTypes.PATH,
            "a file with that PID alone, read when a migration starts; a regular file of the job's user or of root;"
                    + " instead of pid");
    public static final ConfigSection RANK_ENTRY =
            new ConfigSection("ranks", true, "One entry of ranks.", List.of(RANK, PID, PID_FILE));

    public static final ConfigKey<String> NODE =
            ConfigKey.required("node", ValueTypes.TEXT, "the name or address of the node that it is on");
    public static final ConfigSection OTHER_ENTRY =
            new ConfigSection("others", true, "One entry of others.", List.of(RANK, NODE));

    /** All sections but the top. */
    public static final List<ConfigSection> SECTIONS = List.of(
            CommonKeys.POOL,
            TARGET,
            MIGRATION,
            CommonKeys.FENCE,
            TRIGGERS,
            CommonKeys.METRICS,
            CheckpointerKeys.SECTION,
            JOBS);

    private SourceKeys() {}
}
