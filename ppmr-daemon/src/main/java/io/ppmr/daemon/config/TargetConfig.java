package io.ppmr.daemon.config;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Fence;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.daemon.part.ConfiguredParts;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.part.ServicePart.Tools;
import io.ppmr.migration.node.PairCheck;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.migration.target.TargetSettings.JobCommand;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transaction.rules.TransactionTimes;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;

/**
 * The configuration of a target, with its keys. Immutable.
 *
 * @param service what both roles' files say
 * @param settings the service's
 * @param parts what it says of the optional parts
 * @param rootsCommands that root runs, by what names them in the file
 * @param ownStaging the memory for staging where no folder is named
 */
public record TargetConfig(
        ServiceConfig service,
        TargetSettings settings,
        ConfiguredParts parts,
        Map<String, List<String>> rootsCommands,
        Optional<OwnStaging> ownStaging) {
    /** No attempt has such a name, so nothing takes it for what an attempt left. */
    private static final String OWN_STAGING = ".staging";

    private static final int MAX_MIGRATIONS = 32;

    private static final ConfigSection TOP = ConfigSection.top("The service itself.", ServiceConfig.TOP);
    static final ConfigKey<InetSocketAddress> LISTEN =
            TOP.required("listen", ValueType.ADDRESS, "where sources connect to: an address of this node and a port");
    static final ConfigKey<Path> CONTROL_SOCKET = TOP.withDefault(
            "control_socket",
            ValueType.PATH,
            "/run/ppmr/target.sock",
            "the Unix socket that ppmr status talks to; at most 100 characters");
    private static final ConfigKey<Duration> STALL_LIMIT = TOP.withDefault(
            "stall_limit",
            ValueType.TIME,
            "60s",
            "how long nothing at all may move before a migration fails, and a restart that has read all may stand"
                    + " still");
    private static final ConfigKey<Duration> RESTART_DEADLINE =
            TOP.withDefault("restart_deadline", ValueType.TIME, "1h", "how long a restart may take in all");
    private static final ConfigKey<Boolean> ALLOW_ROOT_JOBS =
            TOP.withDefault("allow_root_jobs", ValueType.FLAG, false, "whether processes of root may be restored here");
    private static final ConfigKey<Boolean> UNKNOWN_USERS = TOP.withDefault(
            "unknown_users",
            ValueType.FLAG,
            false,
            "whether jobs may be restored whose user this node's user database does not know; the group that the source"
                    + " names is then believed, unless it is root's");
    private static final ConfigKey<Integer> MIGRATIONS = TOP.withDefault(
            "migrations",
            ValueType.number(1, MAX_MIGRATIONS),
            2L,
            "how many migrations it takes part in at once, each with a pool of its own");
    static final ConfigKey<Path> JOURNAL = TOP.withDefault(
            "journal",
            ValueType.PATH,
            "/var/lib/ppmr/target-journal",
            "the folder of the journal: on a local disk that outlives the service");
    private static final ConfigKey<List<String>> IGNORED_CHECKS = TOP.withDefault(
            "ignored_checks",
            ValueType.WORDS,
            List.of(),
            "checks of ppmr doctor whose failure is only a warning here, such as [\"cpu\"]");

    private static final ConfigSection STAGING = ConfigSection.once(
            "staging",
            "Where the files of an image wait that are read in any order, and what the pool cannot keep of others.");
    private static final ConfigKey<Path> STAGING_DIRECTORY = STAGING.optional(
            "directory",
            ValueType.PATH,
            "where its files are made, in a folder that no user can fill; without it in memory: in a tmpfs of the"
                    + " service's own in its work_directory, as large as limit for each of its migrations");
    private static final ConfigKey<Long> STAGING_LIMIT = STAGING.withDefault(
            "limit",
            ValueType.SIZE,
            "1032m",
            "how much staging of a migration may take; a CRIU image that exceeds it fails, and with 0 a job is refused"
                    + " whose image is read in any order");

    private static final ConfigSection HEADS =
            ConfigSection.once("heads", "The heads of the files, which stay readable.");
    private static final ConfigKey<Long> HEADS_LIMIT =
            HEADS.withDefault("limit", ValueType.SIZE, "16m", "memory for the first 4 KiB of each file; 4k a file");

    private static final ConfigSection RESUMED = ConfigSection.many(
            "resumed",
            "What tells job NAME that its ranks run here, at each target, after a commit and before reconnect; it may"
                    + " run twice where the service was started again. NAME is the job's, or any for every job that has"
                    + " none of its own.");
    private static final ConfigKey<List<String>> RESUMED_COMMAND = RESUMED.required(
            "command",
            ValueType.WORDS,
            "run as the job's user; PPMR_RANKS are the ranks here, PPMR_PIDS says RANK:PID of each. Words without a"
                    + " shell");
    private static final ConfigKey<Duration> RESUMED_DEADLINE =
            RESUMED.withDefault("deadline", ValueType.TIME, "30s", "how long the command may take");

    private static final ConfigSection RECONNECT = ConfigSection.many(
            "reconnect",
            "What tells job NAME's library where its ranks are when this target has decided without the source, which"
                    + " is off. NAME is the job's, or any for every job that has none of its own.");
    private static final ConfigKey<List<String>> RECONNECT_COMMAND = RECONNECT.required(
            "command",
            ValueType.WORDS,
            "run as the job's user; PPMR_MAP names a file that says where each rank is. Words without a shell");
    private static final ConfigKey<Duration> RECONNECT_DEADLINE =
            RECONNECT.withDefault("deadline", ValueType.TIME, "30s", "how long the command may take");

    /**
     * Memory for staging that is no other's.
     *
     * @param mountPoint where it is mounted, in the work directory
     * @param sizeBytes for all migrations together
     */
    public record OwnStaging(Path mountPoint, long sizeBytes) {}

    static final ConfigRole ROLE = new ConfigRole(
            "target",
            TOP,
            ServiceConfig.withParts(
                    Side.TARGET,
                    ServiceConfig.POOL,
                    STAGING,
                    HEADS,
                    ServiceConfig.FENCE,
                    FilesConfig.OF_TARGET,
                    RESUMED,
                    RECONNECT,
                    ServiceConfig.METRICS,
                    CheckpointerConfig.SECTION),
            Stream.concat(Stream.of(RailConfig.OF_TARGET), InstalledParts.entries(Side.TARGET).stream())
                    .toList());

    /** Reads a file on its node; throws with all its mistakes. */
    public static TargetConfig load(Path file) throws ConfigException {
        return read(new ConfigFile(file, true));
    }

    /** The configuration; what only its node knows is null where the file is read elsewhere. */
    static TargetConfig read(ConfigFile file) throws ConfigException {
        ConfigFile.Section top = ROLE.topOf(file);
        InetSocketAddress listen = top.get(LISTEN);
        ServiceConfig service = ServiceConfig.read(file, top, CONTROL_SOCKET, JOURNAL, RailConfig.ofTarget(top));
        ConfigFile.Section staging = file.section(STAGING);
        long stagingLimitBytes = staging.get(STAGING_LIMIT);
        if (service.pool() != null
                && stagingLimitBytes > 0
                && stagingLimitBytes < service.pool().chunkBytes()) {
            staging.bad(STAGING_LIMIT, "is less than a chunk, so nothing would fit: raise it, or set 0 for none");
        }
        Path stagingDirectory = staging.get(STAGING_DIRECTORY);
        int migrations = top.get(MIGRATIONS);
        Optional<OwnStaging> ownStaging = staging.has(STAGING_DIRECTORY)
                ? Optional.empty()
                : ownStaging(service.workDirectory(), staging, stagingLimitBytes, migrations);
        if (service.fence().isPresent() && service.silenceLimit() != null) {
            requirePromise(file.section(ServiceConfig.FENCE), service.fence().get(), service.silenceLimit());
        }
        CheckpointerConfig tools = CheckpointerConfig.read(file);
        if (!file.has(CheckpointerConfig.SECTION)) {
            file.mistake(
                    0, "checkpointers", "none is named, so nothing could be restored: write a [checkpointers.NAME]");
        }
        Map<String, Checkpointer> checkpointers = tools.create();
        TargetSettings settings = new TargetSettings(
                listen,
                service.mountPoint(),
                service.workDirectory(),
                service.pool(),
                new TransferSettings(
                        ownStaging
                                .map(OwnStaging::mountPoint)
                                .or(() -> Optional.ofNullable(stagingDirectory))
                                .orElse(service.workDirectory()),
                        stagingLimitBytes,
                        file.section(HEADS).get(HEADS_LIMIT),
                        top.get(STALL_LIMIT)),
                service.key(),
                List.copyOf(checkpointers.values()),
                top.get(RESTART_DEADLINE),
                service.silenceLimit(),
                migrations,
                service.journal(),
                service.fence(),
                top.get(ALLOW_ROOT_JOBS),
                top.get(UNKNOWN_USERS),
                ignoredChecks(top),
                commands(file, RESUMED, RESUMED_COMMAND, RESUMED_DEADLINE),
                commands(file, RECONNECT, RECONNECT_COMMAND, RECONNECT_DEADLINE),
                tools.trustedUsers(),
                FilesConfig.ofTarget(file),
                service.rankFiles());
        ConfiguredParts parts =
                InstalledParts.read(file, Side.TARGET, new Tools(checkpointers, tools.forAnnouncedJobs()));
        file.requireGood();
        return new TargetConfig(service, settings, parts, service.rootsCommands(tools, parts), ownStaging);
    }

    private static Optional<OwnStaging> ownStaging(
            Path work, ConfigFile.Section staging, long limitBytes, int migrations) {
        if (limitBytes == 0) {
            return Optional.empty();
        }
        if (limitBytes > Long.MAX_VALUE / migrations) {
            staging.bad(STAGING_LIMIT, "is too large for " + migrations + " migrations");
            return Optional.empty();
        }
        return Optional.of(new OwnStaging(work.resolve(OWN_STAGING), limitBytes * migrations));
    }

    /** Returns where the target of a file would mount memory for its staging, whatever else is wrong in the file. */
    public static Optional<Path> stagingMountOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        return ConfigRole.of(opened).isTarget()
                ? Optional.of(ServiceConfig.workDirectoryOf(opened).resolve(OWN_STAGING))
                : Optional.empty();
    }

    private static Map<String, JobCommand> commands(
            ConfigFile file, ConfigSection kind, ConfigKey<List<String>> command, ConfigKey<Duration> deadline) {
        Map<String, JobCommand> commands = new LinkedHashMap<>();
        file.sections(kind).forEach((name, section) -> {
            List<String> words = section.get(command);
            if (words != null && words.isEmpty()) {
                section.bad(command, "is empty: name the command, or take the section out");
            } else if (words != null) {
                commands.put(name, new JobCommand(words, section.get(deadline)));
            }
        });
        return commands;
    }

    /** The other targets of a migration promise something for the window and a quarter more, and not for longer. */
    private static void requirePromise(ConfigFile.Section section, Fence fence, Duration silence) {
        Duration most = Duration.ofNanos(TransactionTimes.LONGEST_PROMISE_NS / 5 * 4);
        if (fence.delay().plus(fence.deadline()).plus(silence).compareTo(most) > 0) {
            section.bad(
                    ServiceConfig.FENCE_DELAY,
                    "is too long: delay, deadline and silence_limit together may be " + most.toMinutes()
                            + "m, since no other target promises anything for longer");
        }
    }

    private static Set<String> ignoredChecks(ConfigFile.Section top) {
        List<String> names = top.get(IGNORED_CHECKS);
        for (String name : names) {
            if (!PairCheck.IGNORABLE.contains(name)) {
                top.bad(
                        IGNORED_CHECKS,
                        "'" + name + "' is no check that can be ignored: " + String.join(", ", PairCheck.IGNORABLE)
                                + " can");
            }
        }
        return Set.copyOf(names);
    }
}
