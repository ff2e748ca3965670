package io.ppmr.daemon.config;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.daemon.config.RailConfig.TargetRail;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.part.ConfiguredParts;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.part.ServicePart.Tools;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.migration.node.PairCheck;
import io.ppmr.migration.target.TargetRules;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.migration.target.TargetSettings.Commands;
import io.ppmr.migration.target.TargetSettings.JobCommand;
import io.ppmr.migration.target.TargetSettings.RestoreTools;
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
 * The configuration of a target, with its keys. It is immutable.
 *
 * @param service the part that both roles have
 * @param settings the settings of the service
 * @param parts the configuration of the optional parts
 * @param rootsCommands the commands that root runs, by their keys in the file
 * @param ownStaging the memory for staging, if no directory is configured
 */
public record TargetConfig(
        ServiceConfig service,
        TargetSettings settings,
        ConfiguredParts parts,
        Map<String, List<String>> rootsCommands,
        Optional<OwnStaging> ownStaging) {
    /** No attempt has such a name, so no clean-up removes it. */
    private static final String OWN_STAGING = ".staging";

    static final ConfigRole ROLE = new ConfigRole(
            "target",
            "listen",
            TargetTop.class,
            ServiceConfig.withParts(
                    Side.TARGET,
                    List.of(
                            ServiceKeys.PoolKeys.class,
                            StagingKeys.class,
                            PrefixKeys.class,
                            ServiceKeys.FenceKeys.class,
                            FileKeys.class,
                            ResumedKeys.class,
                            ReconnectKeys.class,
                            ServiceKeys.MetricsKeys.class,
                            CheckpointerConfig.Keys.class)),
            TargetConfig::read,
            Optional.empty());

    @Section(doc = "The service itself.")
    record TargetTop(
            @Key(doc = "the address and the port of this node on which sources connect", example = "node-07:7411")
            InetSocketAddress listen,

            ServiceKeys service,

            @Key(
                    value = "/run/ppmr/target.sock",
                    doc = "the Unix socket for ppmr status; at most 100 characters",
                    example = "/run/ppmr/spare.sock")
            Path controlSocket,

            @Key(
                    value = "60s",
                    doc = "time without any progress after which a migration fails: no data moves, or a restart"
                            + " that has read everything makes no progress",
                    example = "2m")
            Duration stallLimit,

            TargetRules rules,

            @Key(
                    value = "/var/lib/ppmr/target-journal",
                    doc = "the directory of the journal, on a local disk that is kept when the service ends",
                    example = "/local/ppmr/target-journal")
            Path journal,

            @Key(doc = ServiceKeys.RAILS, example = "[{name = \"ib0\", address = \"10.1.0.2:7412\"}]")
            Optional<List<TargetRail>> rails)
            implements ServiceKeys.Top {}

    @Section(
            name = "staging",
            doc = "The place of image files that are read in any order, and of data that does not fit into the"
                    + " pool.")
    record StagingKeys(
            @Key(
                    doc = "the directory for staged files. No user may be able to fill its filesystem. Default: a"
                            + " tmpfs in work_directory, of the size of limit for each migration",
                    example = "/local/ppmr/staging")
            Optional<Path> directory,

            @Key(
                    value = "1032m",
                    doc = "staging limit of one migration. A CRIU image that needs more fails. With 0, jobs whose"
                            + " images are read in any order are refused",
                    example = "16g")
            long limit) {}

    @Section(name = "prefixes", doc = "The memory for the first 4 KiB of each file, which stay readable.")
    record PrefixKeys(
            @Key(value = "16m", doc = "memory for the first 4 KiB of each file; 4k for each file", example = "64m")
            long limit) {}

    @Section(name = "files", doc = "The files of jobs that may be put at their places on this node.")
    record FileKeys(CarryPolicy carry) {}

    @Section(
            name = "resumed",
            many = true,
            doc = "Notifies job NAME, at each target, that its ranks run here: after a commit, before reconnect. It"
                    + " may run twice if the service was restarted. NAME is a job, or any: the default for all"
                    + " jobs.")
    record ResumedKeys(NoticeKeys notice) {}

    @Section(
            name = "reconnect",
            many = true,
            doc = "Gives job NAME's library the nodes of its ranks, if this target decided without the source,"
                    + " which is off. NAME is a job, or any: the default for all jobs.")
    record ReconnectKeys(NoticeKeys notice) {}

    /** The keys of a command that notifies a job. */
    private record NoticeKeys(
            @Key(
                    doc = "the command, run as the job's user; words without a shell. In [resumed], PPMR_RANKS holds"
                            + " the ranks on this node, and PPMR_PIDS holds RANK:PID of each. In [reconnect], PPMR_MAP"
                            + " names a file with the node of each rank",
                    example = "[\"/opt/solver/bin/notice\"]")
            List<String> command,

            @Key(value = "30s", doc = "time limit of the command", example = "1m")
            Duration deadline) {}

    /**
     * The service's own memory for staging.
     *
     * @param mountPoint its mount point, in the work directory
     * @param sizeBytes its size, for all migrations together
     */
    public record OwnStaging(Path mountPoint, long sizeBytes) {}

    /** Reads a file on its node. Throws with all mistakes. */
    public static TargetConfig load(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, true);
        TargetConfig config = read(opened);
        opened.logWarnings();
        return config;
    }

    /** Reads a file. Values that only its node has are null on other nodes. */
    static TargetConfig read(ConfigFile file) throws ConfigException {
        ConfigRoles.requireRole(ROLE, file);
        ConfigFile.FileSection<TargetTop> top = ConfigRoles.topOf(ROLE, file, TargetTop.class);
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
        if (!file.contains("checkpointers")) {
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
                        file.section(PrefixKeys.class).values().limit(),
                        top.values().stallLimit()),
                service.key(),
                new RestoreTools(List.copyOf(checkpointers.values()), tools.trustedUsers()),
                rules,
                service.fence(),
                new Commands(
                        commands(file, ResumedKeys.class, ResumedKeys::notice),
                        commands(file, ReconnectKeys.class, ReconnectKeys::notice)),
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

    /** Returns the mount point of a target's memory for staging, even if its file has other mistakes. */
    public static Optional<Path> stagingMountOf(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, false);
        return ConfigRoles.of(opened).isTarget()
                ? Optional.of(ServiceConfig.workDirectoryOf(opened).resolve(OWN_STAGING))
                : Optional.empty();
    }

    private static <R extends Record> Map<String, JobCommand> commands(
            ConfigFile file, Class<R> kind, Function<R, NoticeKeys> notice) {
        Map<String, JobCommand> commands = new LinkedHashMap<>();
        file.sections(kind).forEach((name, section) -> {
            NoticeKeys keys = notice.apply(section.values());
            List<String> words = keys.command();
            if (words != null && words.isEmpty()) {
                section.bad("command", "is empty: name the command, or remove the section");
            } else if (words != null) {
                commands.put(name, new JobCommand(words, keys.deadline()));
            }
        });
        return commands;
    }

    /** Limits the fence window: the other targets promise for 1.25 windows, and not for longer. */
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
