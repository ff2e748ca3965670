package io.ppmr.cli.config;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/** The keys of a target's configuration. */
public final class TargetKeys {
    private static final int MAX_MIGRATIONS = 32;

    public static final ConfigKey<InetSocketAddress> LISTEN = ConfigKey.required(
            "listen", ValueTypes.ADDRESS, "where sources connect to: an address of this node and a port");
    public static final ConfigKey<Path> CONTROL_SOCKET = ConfigKey.withDefault(
            "control_socket",
            ValueTypes.PATH,
            "/run/ppmr/target.sock",
            "the Unix socket that ppmr status talks to; at most 100 characters");
    public static final ConfigKey<Duration> STALL_LIMIT = ConfigKey.withDefault(
            "stall_limit", ValueTypes.TIME, "60s", "how long nothing at all may move before a migration fails");
    public static final ConfigKey<Duration> RESTART_DEADLINE =
            ConfigKey.withDefault("restart_deadline", ValueTypes.TIME, "1h", "how long a restart may take in all");
    public static final ConfigKey<Boolean> ALLOW_ROOT_JOBS = ConfigKey.withDefault(
            "allow_root_jobs", ValueTypes.FLAG, false, "whether processes of root may be restored here");
    public static final ConfigKey<Integer> MIGRATIONS = ConfigKey.withDefault(
            "migrations",
            ValueTypes.number(1, MAX_MIGRATIONS),
            2L,
            "how many migrations it takes part in at once, each with a pool of its own");
    public static final ConfigKey<Path> JOURNAL = ConfigKey.withDefault(
            "journal",
            ValueTypes.PATH,
            "/var/lib/ppmr/target-journal",
            "the folder of the journal: on a local disk that outlives the service");
    public static final ConfigKey<List<String>> IGNORED_CHECKS = ConfigKey.withDefault(
            "ignored_checks",
            ValueTypes.WORDS,
            List.of(),
            "checks of ppmr doctor whose failure is only a warning here, such as [\"cpu\"]");
    public static final ConfigSection TOP = new ConfigSection(
            "",
            false,
            "The service itself.",
            List.of(
                    LISTEN,
                    CommonKeys.MOUNT,
                    CommonKeys.WORK_DIRECTORY,
                    JOURNAL,
                    CONTROL_SOCKET,
                    CommonKeys.CONTROL_GROUP,
                    CommonKeys.STATUS_FOR_ALL,
                    CommonKeys.KEY_FILE,
                    CommonKeys.SILENCE_LIMIT,
                    CommonKeys.TRANSPORT,
                    CommonKeys.WARM_UP_MIGRATIONS,
                    STALL_LIMIT,
                    RESTART_DEADLINE,
                    MIGRATIONS,
                    ALLOW_ROOT_JOBS,
                    IGNORED_CHECKS));

    public static final ConfigKey<Path> STAGING_DIRECTORY = ConfigKey.withDefault(
            "directory", ValueTypes.PATH, "/dev/shm", "where the staging file is made; /dev/shm is memory");
    public static final ConfigKey<Long> STAGING_LIMIT = ConfigKey.withDefault(
            "limit",
            ValueTypes.SIZE,
            "1g",
            "how large staging may become; a CRIU image that exceeds it and the pool fails, 0 is none");
    public static final ConfigSection STAGING = new ConfigSection(
            "staging",
            false,
            "Where bytes wait that do not fit the pool: images that are read in any order.",
            List.of(STAGING_DIRECTORY, STAGING_LIMIT));

    public static final ConfigKey<Long> HEADS_LIMIT = ConfigKey.withDefault(
            "limit", ValueTypes.SIZE, "16m", "memory for the first 4 KiB of each file; 4k a file");
    public static final ConfigSection HEADS =
            new ConfigSection("heads", false, "The heads of the files, which stay readable.", List.of(HEADS_LIMIT));

    public static final ConfigKey<List<String>> RECONNECT_COMMAND = ConfigKey.required(
            "command",
            ValueTypes.WORDS,
            "run as the job's user; PPMR_MAP names a file that says where each rank is. Words without a shell");
    public static final ConfigKey<Duration> RECONNECT_DEADLINE =
            ConfigKey.withDefault("deadline", ValueTypes.TIME, "30s", "how long the command may take");
    public static final ConfigSection RECONNECT = new ConfigSection(
            "reconnect",
            true,
            "What tells job NAME's library where its ranks are when this target has decided without the source, which"
                    + " is off. NAME is the job's, or any for every job that has none of its own.",
            List.of(RECONNECT_COMMAND, RECONNECT_DEADLINE));

    /** All sections but the top. */
    public static final List<ConfigSection> SECTIONS = List.of(
            CommonKeys.POOL, STAGING, HEADS, CommonKeys.FENCE, RECONNECT, CommonKeys.METRICS, CheckpointerKeys.SECTION);

    private TargetKeys() {}
}
