package io.ppmr.daemon.config;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.daemon.config.RailConfig.SourceRail;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.JobUsers;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.part.ConfiguredParts;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.part.ServicePart.Tools;
import io.ppmr.daemon.service.HealthTrigger;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.migration.source.MigrationLimits;
import io.ppmr.migration.source.SourceSettings;
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

/**
 * The configuration of a source, with its keys. It is immutable.
 *
 * @param service the part that both roles have
 * @param settings the settings of the service
 * @param jobs the configured jobs, by name
 * @param triggerJob the job that the triggers move, or empty for none
 * @param health the health command, or empty for none
 * @param parts the configuration of the optional parts
 * @param rootsCommands the commands that root runs, by their keys in the file
 */
public record SourceConfig(
        ServiceConfig service,
        SourceSettings settings,
        Map<String, ConfiguredJob> jobs,
        Optional<String> triggerJob,
        Optional<HealthTrigger.Settings> health,
        ConfiguredParts parts,
        Map<String, List<String>> rootsCommands) {
    static final ConfigRole ROLE = new ConfigRole(
            "source",
            "",
            SourceTop.class,
            ServiceConfig.withParts(
                    Side.SOURCE,
                    List.of(
                            ServiceKeys.PoolKeys.class,
                            SpareKeys.class,
                            MigrationLimits.class,
                            ServiceKeys.FenceKeys.class,
                            JobFiles.class,
                            HealthTrigger.Settings.class,
                            ServiceKeys.MetricsKeys.class,
                            CheckpointerConfig.Keys.class,
                            JobKeys.class)),
            SourceConfig::read,
            Optional.empty());

    @Section(doc = "The service itself.")
    record SourceTop(
            ServiceKeys service,

            @Key(
                    value = "/run/ppmr/source.sock",
                    doc = "the Unix socket for ppmr migrate, cancel and status; at most 100" + " characters",
                    example = "/run/ppmr/solver.sock")
            Path controlSocket,

            @Key(
                    doc = "the job that SIGUSR2 moves. Default: the configured job, if there is only one",
                    example = "solver")
            Optional<String> triggerJob,

            @Key(
                    value = "/var/lib/ppmr/source-journal",
                    doc = "the directory of the journal, on a local disk that is kept when the service ends",
                    example = "/local/ppmr/source-journal")
            Path journal,

            @Key(doc = ServiceKeys.RAILS, example = "[{name = \"ib0\"}]")
            Optional<List<SourceRail>> rails)
            implements ServiceKeys.Top {}

    @Section(name = "target", doc = "The spare node, or several.")
    record SpareKeys(
            @Key(
                    doc = "the address and port of the spare node's target, if there is one spare node",
                    example = "node-07:7411")
            Optional<InetSocketAddress> address,

            @Key(
                    doc = "the addresses of the targets of several spare nodes, in the order of use. A target that"
                            + " cannot be reached or refuses is skipped. Instead of address",
                    example = "[\"node-07:7411\", \"node-08:7411\"]")
            Optional<List<InetSocketAddress>> addresses,

            @Key(
                    doc = "a command that prints this list when a migration starts, one HOST:PORT a line; words"
                            + " without a shell. Instead of address",
                    example = "[\"/usr/local/bin/spare-nodes\"]")
            Optional<List<String>> command,

            @Key(value = "10s", doc = "time limit of that command", example = "30s")
            Duration commandDeadline,

            @Key(
                    value = "false",
                    doc = "whether the active controller of the cluster chooses the spare nodes: the least loaded that"
                            + " have room. Needs the section [cluster]. addresses in addition is used if no controller"
                            + " answers within 2 s",
                    example = "true")
            boolean cluster,

            @Key(
                    value = "any",
                    doc = "the zones in which the chosen spare nodes may be: any, the same as this node's, or another"
                            + " one",
                    example = "other")
            SpareNodes.Zone zone,

            SourceSettings.Connecting connecting) {}

    @Section(name = "jobs", many = true, doc = "A job whose processes can be moved.")
    record JobKeys(
            @Key(doc = "the user of the processes", example = "alice")
            Object user,

            @Key(
                    doc = "the group of the processes. Default: the user's primary group. Required if the user is a"
                            + " number that"
                            + " the node does not know",
                    example = "users")
            Optional<Object> group,

            @Key(doc = "the [checkpointers.NAME] that checkpoints the processes", example = "criu")
            String checkpointer,

            @Key(
                    doc = "the job's processes on this node: one root process for each rank",
                    example = "[{rank = 0, pid = 4711}]")
            List<RankKeys> ranks,

            @Key(doc = "the ranks on other nodes, for the reconnect hook", example = "[{rank = 2, node = \"n2\"}]")
            Optional<List<OtherKeys>> others,

            HookKeys hooks,

            @Key(
                    doc = "a directory, owned by root, for a copy of each migration's images, which `ppmr restart`"
                            + " reads",
                    example = "/local/ppmr/kept")
            Optional<Path> keep) {}

    /** The keys of the hooks of a job's library. */
    private record HookKeys(
            @Key(
                    doc = "runs before the first checkpoint, and must make all ranks stop communicating",
                    example = "[\"/opt/solver/bin/suspend\"]")
            Optional<List<String>> suspend,

            @Key(doc = "reverts suspend if the migration is cancelled", example = "[\"/opt/solver/bin/resume\"]")
            Optional<List<String>> resume,

            @Key(
                    doc = "runs after the commit. PPMR_MAP names a file with the node of each rank",
                    example = "[\"/opt/solver/bin/reconnect\"]")
            Optional<List<String>> reconnect,

            @Key(value = "30s", doc = "time limit of each of these three commands", example = "1m")
            Duration hookDeadline) {}

    @Section(doc = "One of the job's processes on this node.")
    record RankKeys(
            @Key(doc = "the number of the rank in the job", example = "0")
            Integer rank,

            @Key(doc = "the PID of the rank's root process on this node", example = "4711", least = 2)
            Optional<Integer> pid,

            @Key(
                    doc = "a file that holds only this PID, read when a migration starts. It must be a regular file"
                            + " of the"
                            + " job's user or of root. Instead of pid",
                    example = "/run/solver/rank-0.pid")
            Optional<Path> pidFile) {}

    @Section(doc = "One of the job's ranks on another node.")
    record OtherKeys(
            @Key(doc = "the number of the rank in the job", example = "2")
            Integer rank,

            @Key(doc = "the name or the address of the rank's node", example = "n2")
            String node) {}

    public SourceConfig {
        jobs = Map.copyOf(jobs);
        rootsCommands = Map.copyOf(rootsCommands);
    }

    /** Returns the facts for the hooks of a job that an earlier run of the service began to move. */
    public JobNotes notes(String job, List<Integer> ranks) {
        ConfiguredJob configured = jobs.get(job);
        return configured == null
                ? new JobNotes(job, ranks, Map.of(), JobHooks.NONE)
                : new JobNotes(job, ranks, configured.others(), configured.hooks());
    }

    /** Returns the checkpointers of the configured jobs. */
    public List<Checkpointer> checkpointers() {
        return jobs.values().stream()
                .map(ConfiguredJob::checkpointer)
                .distinct()
                .toList();
    }

    /** Reads a file on its node. Throws with all mistakes. */
    public static SourceConfig load(Path file) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, true);
        SourceConfig config = read(opened);
        opened.logWarnings();
        return config;
    }

    /** Reads a file. Values that only its node has are null on other nodes. */
    static SourceConfig read(ConfigFile file) throws ConfigException {
        ConfigRoles.requireRole(ROLE, file);
        ConfigFile.FileSection<SourceTop> top = ConfigRoles.topOf(ROLE, file, SourceTop.class);
        ServiceConfig service = ServiceConfig.read(file, top, RailConfig.ofSource(top));
        ConfigFile.FileSection<SpareKeys> target = file.section(SpareKeys.class);
        CheckpointerConfig tools = CheckpointerConfig.read(file);
        Map<String, Checkpointer> checkpointers = tools.create();
        ConfiguredParts parts =
                InstalledParts.read(file, Side.SOURCE, new Tools(checkpointers, tools.forAnnouncedJobs()));
        SourceSettings.Connecting connecting = target.values().connecting();
        RailConfig.requireFewConnections(top, service.rails(), connecting.connections());
        SourceSettings settings = new SourceSettings(
                service.keys().node(),
                service.journal(),
                service.pool(),
                service.key(),
                spares(target, parts.spares(service.key())),
                connecting,
                file.section(MigrationLimits.class).values(),
                SourceSettings.USUAL_RATE_TIME,
                service.keys().rankFiles(),
                service.fence(),
                file.section(JobFiles.class).values());
        Map<String, ConfiguredJob> jobs = jobs(file, checkpointers);
        Optional<String> trigger = Optional.ofNullable(triggerJob(top, jobs));
        Optional<HealthTrigger.Settings> health =
                health(file.section(HealthTrigger.Settings.class), trigger.isPresent() || parts.takesJobs());
        file.requireGood();
        Map<String, List<String>> commands = service.rootsCommands(tools, parts);
        health.ifPresent(one -> commands.put("triggers.health", one.command()));
        if (settings.spares() instanceof SpareNodes.Printed printed) {
            commands.put("target.command", printed.command());
        }
        return new SourceConfig(service, settings, jobs, trigger, health, parts, commands);
    }

    /** Returns the health command, if there is one. Without {@code trigger_job} it moves announced jobs. */
    private static Optional<HealthTrigger.Settings> health(
            ConfigFile.FileSection<HealthTrigger.Settings> section, boolean movesJobs) {
        HealthTrigger.Settings settings = section.values();
        if (settings.health().isEmpty()) {
            return Optional.empty();
        }
        if (settings.command().isEmpty()) {
            section.bad("health", "is empty: name the command, such as [\"/usr/sbin/nhc\"], or remove it");
        } else if (!movesJobs) {
            section.bad("health", "has no job to move: set trigger_job, or remove health");
        }
        return Optional.of(settings);
    }

    private static SpareNodes spares(
            ConfigFile.FileSection<SpareKeys> target, Optional<SpareNodes.SpareFinder> finder) {
        SpareKeys keys = target.values();
        if (keys.cluster()) {
            if (finder.isEmpty()) {
                target.bad(
                        "cluster",
                        "needs a cluster, and there is none here: write the section [cluster] with the"
                                + " controllers, or remove it");
            }
            Stream.of("address", "command")
                    .filter(target::has)
                    .forEach(key -> target.bad(
                            key,
                            "cannot be used together with cluster: remove it, or give addresses for the case"
                                    + " that no controller answers"));
            return finder.map(found -> new SpareNodes.Found(
                            found,
                            keys.zone(),
                            keys.addresses().map(SpareNodes.Listed::new).orElse(null)))
                    .orElse(null);
        }
        List<String> given =
                Stream.of("address", "addresses", "command").filter(target::has).toList();
        if (given.size() != 1) {
            target.bad(
                    given.isEmpty() ? "address" : given.get(1),
                    given.isEmpty()
                            ? "is missing; it must be "
                                    + target.form("address")
                                    + ". For several spare nodes give addresses or command instead"
                            : "cannot be used together with " + given.get(0)
                                    + "; give one of address, addresses, command");
            return null;
        }
        if (keys.command().filter(List::isEmpty).isPresent()
                || keys.addresses().filter(List::isEmpty).isPresent()) {
            target.bad(given.get(0), "is empty, so nothing could be moved; it must be " + target.form(given.get(0)));
        }
        return keys.command()
                .<SpareNodes>map(command -> new SpareNodes.Printed(command, keys.commandDeadline()))
                .or(() -> keys.addresses().map(SpareNodes.Listed::new))
                .or(() -> keys.address().map(SpareNodes::of))
                .orElse(null);
    }

    private static Map<String, ConfiguredJob> jobs(ConfigFile file, Map<String, Checkpointer> tools) {
        Map<String, ConfiguredJob> jobs = new LinkedHashMap<>();
        file.sections(JobKeys.class).forEach((name, section) -> {
            JobKeys keys = section.values();
            JobUser user = section.here(
                    "user",
                    keys.user(),
                    named -> JobUsers.find(named, keys.group().orElse(null)));
            String checkpointer = keys.checkpointer();
            if (checkpointer != null && !CheckpointerConfig.namesIn(file).contains(checkpointer)) {
                section.bad(
                        "checkpointer",
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
                            hooks(keys.hooks(), user),
                            List.of(),
                            keys.keep(),
                            Map.of()));
        });
        return jobs;
    }

    private static List<ConfiguredJob.RankSource> ranks(ConfigFile.FileSection<JobKeys> job) {
        List<ConfiguredJob.RankSource> ranks = new ArrayList<>();
        Set<Integer> seen = new HashSet<>();
        for (ConfigFile.FileSection<RankKeys> entry : job.entries(RankKeys.class)) {
            RankKeys keys = entry.values();
            if (keys.rank() != null && !seen.add(keys.rank())) {
                entry.bad("rank", "rank " + keys.rank() + " stands there twice: number each process once");
            }
            if (entry.has("pid") == entry.has("pid_file")) {
                entry.bad("rank", "needs either pid or pid_file");
            } else if (keys.rank() != null
                    && (keys.pid().isPresent() || keys.pidFile().isPresent())) {
                ranks.add(new ConfiguredJob.RankSource(
                        keys.rank(), keys.pid().orElse(0), keys.pidFile().orElse(null)));
            }
        }
        return ranks;
    }

    private static Map<Integer, String> others(ConfigFile.FileSection<JobKeys> job) {
        Map<Integer, String> others = new TreeMap<>();
        for (ConfigFile.FileSection<OtherKeys> entry : job.entries(OtherKeys.class)) {
            Integer rank = entry.values().rank();
            String node = entry.values().node();
            if (node != null && !node.matches("[^\\s\\p{Cntrl}]{1,255}")) {
                entry.bad("node", "must be a node's name or address, without spaces in it");
            } else if (rank != null && node != null && others.put(rank, node) != null) {
                entry.bad("rank", "rank " + rank + " stands there twice: name each rank once");
            }
        }
        return others;
    }

    private static JobHooks hooks(HookKeys keys, JobUser user) {
        return new JobHooks(
                hook("suspend", keys.suspend(), user, keys.hookDeadline()),
                hook("resume", keys.resume(), user, keys.hookDeadline()),
                hook("reconnect", keys.reconnect(), user, keys.hookDeadline()));
    }

    private static Optional<SiteCommand> hook(
            String name, Optional<List<String>> words, JobUser user, Duration deadline) {
        return words.map(command -> new SiteCommand(name, command, Optional.ofNullable(user), deadline));
    }

    private static String triggerJob(ConfigFile.FileSection<SourceTop> top, Map<String, ConfiguredJob> jobs) {
        String trigger = top.values().triggerJob().orElse(null);
        if (trigger == null) {
            if (jobs.size() != 1) {
                return null;
            }
            String only = jobs.keySet().iterator().next();
            top.derived("trigger_job", only, "the only job");
            return only;
        }
        if (!jobs.containsKey(trigger)) {
            top.bad(
                    "trigger_job",
                    "there is no [jobs." + trigger + "]"
                            + (jobs.isEmpty() ? ": write one" : "; known are " + String.join(", ", jobs.keySet())));
        }
        return trigger;
    }
}
