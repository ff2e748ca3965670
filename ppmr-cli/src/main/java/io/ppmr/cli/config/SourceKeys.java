package io.ppmr.cli.config;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.tomlj.TomlArray;

/** The keys of a source's configuration. */
public final class SourceKeys {
    private static final int MAX_CONNECTIONS = 64;

    public static final ConfigKey<Path> CONTROL_SOCKET = ConfigKey.withDefault(
            "control_socket",
            ValueTypes.PATH,
            "/run/ppmr/source.sock",
            "the Unix socket that ppmr migrate and ppmr status talk to");
    public static final ConfigKey<String> TRIGGER_JOB = ConfigKey.optional(
            "trigger_job", ValueTypes.TEXT, "the job that SIGUSR2 moves; where one job is configured, that one");
    public static final ConfigKey<Path> ANNOUNCEMENTS = ConfigKey.optional(
            "announcements",
            ValueTypes.PATH,
            "a directory in which users announce their jobs (Slurm); without it none are taken");
    public static final ConfigSection TOP = new ConfigSection(
            "",
            false,
            "The service itself.",
            List.of(
                    CommonKeys.MOUNT,
                    CommonKeys.WORK_DIRECTORY,
                    CONTROL_SOCKET,
                    CommonKeys.KEY_FILE,
                    CommonKeys.SILENCE_LIMIT,
                    TRIGGER_JOB,
                    ANNOUNCEMENTS));

    public static final ConfigKey<InetSocketAddress> ADDRESS =
            ConfigKey.required("address", ValueTypes.ADDRESS, "where the spare node's target listens");
    public static final ConfigKey<Integer> CONNECTIONS = ConfigKey.withDefault(
            "connections", ValueTypes.number(1, MAX_CONNECTIONS), 4L, "how many connections carry the bytes");
    public static final ConfigKey<Duration> CONNECT_DEADLINE =
            ConfigKey.withDefault("connect_deadline", ValueTypes.TIME, "5s", "for each connection, with its handshake");
    public static final ConfigSection TARGET =
            new ConfigSection("target", false, "The spare node.", List.of(ADDRESS, CONNECTIONS, CONNECT_DEADLINE));

    public static final ConfigKey<Duration> CHECKPOINT_DEADLINE = ConfigKey.withDefault(
            "checkpoint_deadline", ValueTypes.TIME, "1h", "how long a checkpoint may take in all");
    public static final ConfigKey<Duration> DECISION_DEADLINE = ConfigKey.withDefault(
            "decision_deadline",
            ValueTypes.TIME,
            "2m",
            "how long a target that is lost after the originals ended is sought, to be told to go on");
    public static final ConfigSection MIGRATION = new ConfigSection(
            "migration", false, "Bounds of a migration.", List.of(CHECKPOINT_DEADLINE, DECISION_DEADLINE));

    public static final ConfigKey<Object> USER =
            ConfigKey.required("user", ValueTypes.NAME_OR_NUMBER, "whose processes they are");
    public static final ConfigKey<Object> GROUP =
            ConfigKey.optional("group", ValueTypes.NAME_OR_NUMBER, "their group; without it the user's own");
    public static final ConfigKey<String> CHECKPOINTER =
            ConfigKey.required("checkpointer", ValueTypes.TEXT, "which [checkpointers.NAME] checkpoints them");
    public static final ConfigKey<TomlArray> RANKS =
            ConfigKey.required("ranks", ValueTypes.TABLES, "the job's processes on this node, one root process a rank");
    public static final ConfigSection JOBS = new ConfigSection(
            "jobs", true, "A job whose processes can be moved.", List.of(USER, GROUP, CHECKPOINTER, RANKS));

    public static final ConfigKey<Integer> RANK =
            ConfigKey.required("rank", ValueTypes.number(0, Integer.MAX_VALUE), "its number in the job");
    public static final ConfigKey<Integer> PID = ConfigKey.optional(
            "pid", ValueTypes.number(2, Integer.MAX_VALUE), "the PID of its root process on this node");
    public static final ConfigKey<Path> PID_FILE = ConfigKey.optional(
            "pid_file", ValueTypes.PATH, "a file with that PID, read when a migration starts; instead of pid");
    public static final ConfigSection RANK_ENTRY =
            new ConfigSection("ranks", true, "One entry of ranks.", List.of(RANK, PID, PID_FILE));

    /** All sections but the top. */
    public static final List<ConfigSection> SECTIONS =
            List.of(CommonKeys.POOL, TARGET, MIGRATION, CheckpointerKeys.SECTION, JOBS);

    private SourceKeys() {}
}
