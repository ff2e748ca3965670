package io.ppmr.daemon.config;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.daemon.config.RailConfig.TargetRail;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.part.ConfiguredParts;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.part.ServicePart.Tools;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.migration.node.PairCheck;
import io.ppmr.migration.target.TargetRules;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.migration.target.TargetSettings.Commands;
import io.ppmr.migration.target.TargetSettings.JobCommand;
import io.ppmr.migration.target.TargetSettings.RestoreTools;
import io.ppmr.os.config.Key;
import io.ppmr.os.config.Section;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transaction.rules.TransactionTimes;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;

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

    static final ConfigRole ROLE = new ConfigRole(
            "target",
            TargetTop.class,
            ServiceConfig.withParts(
                    Side.TARGET,
                    List.of(
                            ServiceKeys.PoolKeys.class,
                            StagingKeys.class,
                            HeadKeys.class,
                            ServiceKeys.FenceKeys.class,
                            FileKeys.class,
                            ResumedKeys.class,
                            ReconnectKeys.class,
                            ServiceKeys.MetricsKeys.class,
                            CheckpointerConfig.Keys.class)));

    @Section(doc = "The service itself.")
    record TargetTop(
            @Key(doc = "where sources connect to: an address of this node and a port", example = "node-07:7411")
            InetSocketAddress listen,

            ServiceKeys service,

            @Key(
                    value = "/run/ppmr/target.sock",
                    doc = "the Unix socket that ppmr status talks to; at most 100 characters",
                    example = "/run/ppmr/spare.sock")
            Path controlSocket,

            @Key(
                    value = "60s",
                    doc = "how long nothing at all may move before a migration fails, and a restart that has"
                            + " read all may make no progress",
                    example = "2m")
            Duration stallLimit,

            TargetRules rules,

            @Key(
                    value = "/var/lib/ppmr/target-journal",
                    doc = "the folder of the journal: on a local disk that outlives the service",
                    example = "/local/ppmr/target-journal")
            Path journal,

            @Key(doc = ServiceKeys.RAILS, example = "[{name = \"ib0\", address = \"10.1.0.2:7412\"}]")
            Optional<List<TargetRail>> rails)
            implements ServiceKeys.Top {}

    @Section(
            name = "staging",
            doc = "Where the files of an image wait that are read in any order, and what the pool cannot keep of"
                    + " others.")
    record StagingKeys(
            @Key(
                    doc = "where its files are made, in a folder that no user can fill; without it in"
                            + " memory: in a tmpfs of the service's own in its work_directory, as large as"
                            + " limit for each of its migrations",
                    example = "/local/ppmr/staging")
            Optional<Path> directory,

            @Key(
                    value = "1032m",
                    doc = "how much staging of a migration may take; a CRIU image that exceeds it fails, and"
                            + " with 0 a job is refused whose image is read in any order",
                    example = "16g")
            long limit) {}

    @Section(name = "heads", doc = "The heads of the files, which stay readable.")
    record HeadKeys(
            @Key(value = "16m", doc = "memory for the first 4 KiB of each file; 4k a file", example = "64m")
            long limit) {}

    @Section(name = "files", doc = "The files of jobs that may be put at their places on this node.")
    record FileKeys(CarryPolicy carry) {}

    @Section(
            name = "resumed",
            many = true,
            doc = "What tells job NAME that its ranks run here, at each target, after a commit and before reconnect; it"
                    + " may run twice where the service was started again. NAME is the job's, or any for every job that"
                    + " has none of its own.")
    record ResumedKeys(
            @Key(
                    doc = "run as the job's user; PPMR_RANKS are the ranks here, PPMR_PIDS says RANK:PID of"
                            + " each. Words without a shell",
                    example = "[\"/opt/solver/bin/resumed\"]")
            List<String> command,

            @Key(value = "30s", doc = "how long the command may take", example = "1m")
            Duration deadline) {}

    @Section(
            name = "reconnect",
            many = true,
            doc = "What tells job NAME's library where its ranks are when this target has decided without the source,"
                    + " which is off. NAME is the job's, or any for every job that has none of its own.")
    record ReconnectKeys(
            @Key(
                    doc = "run as the job's user; PPMR_MAP names a file that says where each rank is. Words"
                            + " without a shell",
                    example = "[\"/opt/solver/bin/reconnect\"]")
            List<String> command,

            @Key(value = "30s", doc = "how long the command may take", example = "1m")
            Duration deadline) {}

    /**
     * Memory for staging that is no other's.
     *
     * @param mountPoint where it is mounted, in the work directory
     * @param sizeBytes for all migrations together
     */
    public record OwnStaging(Path mountPoint, long sizeBytes) {}

    /** Reads a file on its node; throws with all its mistakes. */
    public static TargetConfig load(Path file) throws ConfigException {
        return read(new ConfigFile(file, true));
    }

    /** The configuration; what only its node knows is null where the file is read elsewhere. */
    static TargetConfig read(ConfigFile file) throws ConfigException {
        ROLE.requireRoleOf(file);
        ConfigFile.FileSection<TargetTop> top = ROLE.topOf(file, TargetTop.class);
        ServiceConfig service = ServiceConfig.read(file, top, RailConfig.ofTarget(top));
        NodeSettings node = service.keys().node();
        TargetRules rules = top.values().rules();
        ConfigFile.FileSection<StagingKeys> staging = file.section(StagingKeys.class);
        long stagingLimitBytes = staging.values().limit();
        if (service.pool() != null
                && stagingLimitBytes > 0
                && stagingLimitBytes < service.pool().chunkBytes()) {
            staging.bad("limit", "is less than a chunk, so nothing would fit: raise it, or set 0 for none");
        }
        Optional<OwnStaging> ownStaging = staging.has("directory")
                ? Optional.empty()
                : ownStaging(node.workDirectory(), staging, rules.migrations());
        service.fence().ifPresent(fence -> requirePromise(file, fence, node.silenceLimit()));
        CheckpointerConfig tools = CheckpointerConfig.read(file);
        if (!file.says("checkpointers")) {
            file.mistake(
                    0, "checkpointers", "none is named, so nothing could be restored: write a [checkpointers.NAME]");
        }
        Map<String, Checkpointer> checkpointers = tools.create();
        requireIgnorable(top, rules);
        TargetSettings settings = new TargetSettings(
                top.values().listen(),
                node,
                service.journal(),
                service.pool(),
                new TransferSettings(
                        ownStaging
                                .map(OwnStaging::mountPoint)
                                .or(() -> staging.values().directory())
                                .orElse(node.workDirectory()),
                        stagingLimitBytes,
                        file.section(HeadKeys.class).values().limit(),
                        top.values().stallLimit()),
                service.key(),
                new RestoreTools(List.copyOf(checkpointers.values()), tools.trustedUsers()),
                rules,
                service.fence(),
                new Commands(
                        commands(file, ResumedKeys.class, ResumedKeys::command, ResumedKeys::deadline),
                        commands(file, ReconnectKeys.class, ReconnectKeys::command, ReconnectKeys::deadline)),
                file.section(FileKeys.class).values().carry(),
                service.keys().rankFiles());
        ConfiguredParts parts =
                InstalledParts.read(file, Side.TARGET, new Tools(checkpointers, tools.forAnnouncedJobs()));
        file.requireGood();
        return new TargetConfig(service, settings, parts, service.rootsCommands(tools, parts), ownStaging);
    }

    private static Optional<OwnStaging> ownStaging(
            Path work, ConfigFile.FileSection<StagingKeys> staging, int migrations) {
        long limitBytes = staging.values().limit();
        if (limitBytes == 0) {
            return Optional.empty();
        }
        if (limitBytes > Long.MAX_VALUE / migrations) {
            staging.bad("limit", "is too large for " + migrations + " migrations");
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

    private static <R extends Record> Map<String, JobCommand> commands(
            ConfigFile file, Class<R> kind, Function<R, List<String>> command, Function<R, Duration> deadline) {
        Map<String, JobCommand> commands = new LinkedHashMap<>();
        file.sections(kind).forEach((name, section) -> {
            List<String> words = command.apply(section.values());
            if (words != null && words.isEmpty()) {
                section.bad("command", "is empty: name the command, or remove the section");
            } else if (words != null) {
                commands.put(name, new JobCommand(words, deadline.apply(section.values())));
            }
        });
        return commands;
    }

    /** The other targets of a migration promise something for the window and a quarter more, and not for longer. */
    private static void requirePromise(ConfigFile file, Fence fence, Duration silence) {
        Duration most = Duration.ofNanos(TransactionTimes.LONGEST_PROMISE_NS / 5 * 4);
        ConfigFile.FileSection<ServiceKeys.FenceKeys> section = file.section(ServiceKeys.FenceKeys.class);
        if (fence.delay().plus(fence.deadline()).plus(silence).compareTo(most) > 0) {
            section.bad(
                    "delay",
                    "is too long: delay, deadline and silence_limit together may be " + most.toMinutes()
                            + "m, since no other target promises anything for longer");
        }
    }

    private static void requireIgnorable(ConfigFile.FileSection<TargetTop> top, TargetRules rules) {
        for (String name : rules.ignoredChecks()) {
            if (!PairCheck.IGNORABLE.contains(name)) {
                top.bad(
                        "ignored_checks",
                        "'" + name + "' is no check that can be ignored: " + String.join(", ", PairCheck.IGNORABLE)
                                + " can");
            }
        }
    }
}
