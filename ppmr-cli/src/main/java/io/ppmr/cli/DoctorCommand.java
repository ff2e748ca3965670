package io.ppmr.cli;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.ContentDigests;
import io.ppmr.checkpoint.FileLooker;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.SourceConfig;
import io.ppmr.daemon.config.TargetConfig;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.ProcessSignals;
import io.ppmr.linux.HostPort;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.node.ClockCheck;
import io.ppmr.migration.node.FileComparison;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.node.JobProbe;
import io.ppmr.migration.node.NodeCheck;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.node.Preparation;
import io.ppmr.migration.source.Job;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ControlMessage.FilesInspected;
import io.ppmr.protocol.control.ControlMessage.Introduce;
import io.ppmr.protocol.control.ControlMessage.Introduced;
import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.protocol.data.Message;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.transport.auth.Encryption;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code ppmr doctor}: checks this node and, with a peer, if its jobs could continue there. */
@JsonResult(DoctorCommand.DoctorReport.class)
@Command(
        name = "doctor",
        description = {
            "Checks if this node can run ppmr. With --peer it also checks if the node's jobs could continue at another"
                    + " node, whose target must run.",
            "Each line is ok, warn or fail, with the remedy. Failures are repeated at the end.",
            "If this node has a source and a target, both are checked. Exit code 1: a check failed."
        },
        mixinStandardHelpOptions = true)
public final class DoctorCommand implements Callable<Integer> {
    private static final Logger LOG = LoggerFactory.getLogger(DoctorCommand.class);

    private static final String FAIL = "fail";
    private static final Path ROOT = Path.of("/");
    private static final PoolGeometry USUAL_POOL = PoolGeometry.choose(8 << 20);
    private static final Path USUAL_WORK = Path.of("/var/lib/ppmr/work");

    private static final Duration CONNECT_LIMIT = Duration.ofSeconds(5);
    /** The target probes its checkpointers in that time. */
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(60);

    @Spec
    private CommandSpec spec;

    @Mixin
    private ConfigArgument config;

    @Option(
            names = "--peer",
            paramLabel = "HOST:PORT",
            description = "the address at which the other node's target listens")
    private String peer;

    @Option(names = "--json", description = "print the result as JSON")
    private boolean json;

    private final List<CheckedPart> parts = new ArrayList<>();

    /** The findings, for {@code --json}. */
    record DoctorReport(long failures, long warnings, List<CheckedPart> parts) {}

    /** The findings about this node, or about a pair and a job. */
    record CheckedPart(String about, List<ShownFinding> findings) {}

    /** A finding as it is shown, its level in small letters. */
    record ShownFinding(String level, String check, String text, String remedy) {}

    /** The needs of this node by its configuration, or without one. */
    private record Node(
            NodeCheck.Wanted wanted,
            int chunkBytes,
            Optional<PeerAuthenticator> key,
            Map<String, ConfiguredJob> jobs,
            boolean triggered,
            Map<String, List<Finding>> ofParts,
            JobFiles files) {}

    @Override
    public Integer call() throws ConfigException, IOException, CommandFailure {
        List<Path> files = config.all();
        if (files.isEmpty()) {
            check(node(null), "this node", peer != null);
        }
        for (Path file : files) {
            String about = files.size() == 1 ? "this node" : "this node, by " + file;
            ConfigRole role = ConfigRoles.of(file);
            if (role.check().isPresent()) {
                requireNoPeer(role);
                add(about, role.check().get().by(file));
                continue;
            }
            version(about, file);
            // A target moves no job: of both files the source's is the one for a peer.
            check(node(file), about, peer != null && (files.size() == 1 || !role.isTarget()));
        }
        DoctorReport report = new DoctorReport(count(FAIL), count("warn"), parts);
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            out.print(new ObjectMapper()
                    .enable(SerializationFeature.INDENT_OUTPUT)
                    .writeValueAsString(report));
            out.println();
        } else {
            print(report, out, FindingColors.of(spec));
        }
        return (report.failures() == 0 ? ExitCode.OK : ExitCode.FAILED).number();
    }

    /** Adds a warning if the service runs in another version than the installed one. */
    private void version(String about, Path file) throws ConfigException {
        try (ControlClient client = new ControlClient(ServiceConfig.socketOf(file))) {
            String installed = client.status().installed();
            if (installed != null) {
                String unit = "ppmr-" + ConfigRoles.of(file).word();
                add(
                        "the service of " + about,
                        List.of(Finding.warn(
                                "version",
                                "the service runs in its own version, and " + installed + " is installed",
                                "systemctl restart " + unit + " when ppmr status shows idle")));
            }
        } catch (IOException none) {
            LOG.debug("no service answers for {}, so no version is compared: {}", file, none.getMessage());
        }
    }

    private void requireNoPeer(ConfigRole role) {
        if (peer != null) {
            throw new ParameterException(
                    spec.commandLine(),
                    "a " + role.word() + " has no jobs that could continue at a peer: name a source's file with"
                            + " --config");
        }
    }

    private void check(Node node, String about, boolean withPeer) {
        List<Finding> own = new ArrayList<>(NodeCheck.findings(ROOT, node.wanted()));
        own.add(signal(node.triggered()));
        node.key().map(key -> encryption(key.encryption())).ifPresent(own::add);
        add(about, own);
        node.ofParts().forEach((part, findings) -> add(part + " of " + about, findings));
        if (withPeer) {
            askPeer(node);
        }
    }

    private void add(String about, List<Finding> findings) {
        List<ShownFinding> shown = findings.stream()
                .map(one -> new ShownFinding(
                        one.level().name().toLowerCase(Locale.ROOT), one.check(), one.text(), one.remedy()))
                .toList();
        parts.add(new CheckedPart(about, shown));
    }

    private long count(String level) {
        return parts.stream()
                .flatMap(part -> part.findings().stream())
                .filter(finding -> finding.level().equals(level))
                .count();
    }

    private static void print(DoctorReport report, PrintWriter out, FindingColors colors) {
        for (CheckedPart part : report.parts()) {
            out.println(part.about());
            part.findings().forEach(finding -> print(finding, out, colors));
        }
        if (report.failures() == 0 && report.warnings() == 0) {
            out.println("all is well");
            return;
        }
        out.println(counted(report.failures(), "failure") + ", " + counted(report.warnings(), "warning"));
        for (CheckedPart part : report.parts()) {
            for (ShownFinding finding : part.findings()) {
                if (finding.level().equals(FAIL)) {
                    out.println("");
                    out.println(part.about() + ":");
                    print(finding, out, colors);
                }
            }
        }
    }

    private static void print(ShownFinding finding, PrintWriter out, FindingColors colors) {
        out.print("  ");
        colors.print(out, finding.level(), String.format("%-4s", finding.level()));
        out.println(String.format("  %-13s %s", finding.check(), finding.text()));
        if (!finding.remedy().isEmpty()) {
            out.println(String.format("  %-4s  %-13s -> %s", "", "", finding.remedy()));
        }
    }

    private static String counted(long count, String what) {
        return count + " " + what + (count == 1 ? "" : "s");
    }

    private static Node node(Path config) throws ConfigException {
        if (config == null) {
            NodeCheck.Wanted usual = new NodeCheck.Wanted(
                    USUAL_POOL.poolBytes(),
                    USUAL_WORK,
                    Optional.empty(),
                    0,
                    CheckpointerConfig.usual(System.getenv()),
                    false);
            return new Node(usual, USUAL_POOL.chunkBytes(), Optional.empty(), Map.of(), true, Map.of(), JobFiles.USUAL);
        }
        Optional<TargetConfig> target =
                ConfigRoles.of(config).isTarget() ? Optional.of(TargetConfig.load(config)) : Optional.empty();
        Optional<SourceConfig> source = target.isPresent() ? Optional.empty() : Optional.of(SourceConfig.load(config));
        ServiceConfig service = target.map(TargetConfig::service)
                .or(() -> source.map(SourceConfig::service))
                .orElseThrow();
        Optional<TransferSettings> transfer = target.map(one -> one.settings().transfer());
        NodeCheck.Wanted wanted = new NodeCheck.Wanted(
                service.pool().poolBytes(),
                service.keys().node().workDirectory(),
                target.filter(one -> one.ownStaging().isEmpty())
                        .map(one -> one.settings().transfer().stagingDirectory()),
                target.flatMap(TargetConfig::ownStaging)
                        .map(TargetConfig.OwnStaging::sizeBytes)
                        .or(() -> transfer.map(TransferSettings::stagingLimitBytes))
                        .orElse(0L),
                CheckpointerConfig.load(config),
                true);
        return new Node(
                wanted,
                service.pool().chunkBytes(),
                Optional.of(service.key()),
                source.map(SourceConfig::jobs).orElse(Map.of()),
                source.flatMap(SourceConfig::triggerJob).isPresent(),
                target.map(TargetConfig::parts)
                        .or(() -> source.map(SourceConfig::parts))
                        .orElseThrow()
                        .findings(service.key()),
                source.map(one -> one.settings().files()).orElse(JobFiles.USUAL));
    }

    private static Finding signal(boolean triggered) {
        try {
            ProcessSignals.requireFreeTrigger(System.getenv());
            return Finding.ok("signal", "HotSpot leaves SIGUSR2 alone (_JAVA_SR_SIGNUM)");
        } catch (CommandFailure e) {
            return triggered
                    ? Finding.fail("signal", String.valueOf(e.getMessage()), "")
                    : Finding.ok("signal", "_JAVA_SR_SIGNUM is not set, and no job is triggered by SIGUSR2");
        }
    }

    private static Finding encryption(Encryption configured) {
        return configured == Encryption.CONTROL
                ? Finding.ok("encryption", "control connections use TLS 1.3; the memory of jobs is not encrypted")
                : Finding.warn(
                        "encryption",
                        "encryption is off: a host between two nodes can change what a migration does",
                        "set encryption = \"control\" on all nodes, and restart the services when ppmr status shows"
                                + " idle");
    }

    private void askPeer(Node node) {
        if (node.key().isEmpty()) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--peer needs the configuration of this node's service, which names the key. Remedy: add --config"
                            + " FILE");
        }
        InetSocketAddress address = address();
        Map<String, Present> jobs = new LinkedHashMap<>();
        node.jobs().forEach((name, job) -> {
            try {
                jobs.put("job " + name, present(job.resolve()));
            } catch (IOException | CheckpointException e) {
                add(
                        "job " + name,
                        List.of(Finding.warn(
                                "job",
                                String.valueOf(e.getMessage()),
                                "check again when the job runs; it is left out now")));
            }
        });
        if (jobs.isEmpty()) {
            jobs.put("this node", new Present(Optional.empty(), JobFacts.NONE, Map.of()));
        }
        NodeFacts facts = new NodeProbe(ROOT, 0, node.chunkBytes(), List.of()).facts();
        jobs.forEach((about, job) -> {
            String title = about + ", and " + peer;
            try {
                ask(title, new Connector(address, node.key().get(), CONNECT_LIMIT), facts, job, node.files());
            } catch (IOException e) {
                add(title, List.of(Finding.fail("peer", String.valueOf(e.getMessage()), "")));
            }
        });
    }

    /** A running job, or none if only the nodes are compared. */
    private record Present(Optional<Job> job, JobFacts facts, Map<Integer, List<ProcessIdentity>> trees) {}

    private static Present present(Job job) throws CheckpointException {
        ProcessTable processes = new ProcessTable();
        Map<Integer, ProcessIdentity> roots = new LinkedHashMap<>();
        for (Job.RankProcess rank : job.ranks()) {
            ProcessIdentity root = processes.of(rank.pid());
            processes.requireOwner(root, job.user());
            roots.put(rank.rank(), root);
        }
        JobFacts facts = new JobProbe(processes, new Preparation(() -> false))
                .facts(job.checkpointer().name(), List.copyOf(roots.values()));
        return new Present(Optional.of(job), facts, processes.snapshot().trees(roots));
    }

    private InetSocketAddress address() {
        return HostPort.parse(peer)
                .filter(node -> node.port() > 0)
                .map(HostPort::lookUp)
                .orElseThrow(() ->
                        new ParameterException(spec.commandLine(), "--peer: '" + peer + "' is not " + HostPort.FORM));
    }

    /** Queries a target about a job over a control connection of its own. The query changes nothing. */
    private void ask(String title, Connector connector, NodeFacts facts, Present present, JobFiles expected)
            throws IOException {
        try (Connector.TargetRequests peers = connector.connectForRequests(ControlMessage::read, ANSWER_LIMIT)) {
            AtomicLong askedMs = new AtomicLong();
            Message answer = peers.request(
                    () -> {
                        // Its clock now, when everything is connected.
                        askedMs.set(System.currentTimeMillis());
                        return new Introduce(facts.at(askedMs.get()), present.facts());
                    },
                    ANSWER_LIMIT);
            long answeredMs = System.currentTimeMillis();
            if (!(answer instanceof Introduced introduced)) {
                throw new IOException("target " + peer + " answers with " + answer
                        + ": install the same release of ppmr on both nodes");
            }
            List<Finding> findings = new ArrayList<>(introduced.findings());
            findings.add(ClockCheck.finding(askedMs.get(), introduced.node().clockEpochMs(), answeredMs));
            if (present.job().isPresent()
                    && present.job().get().checkpointer().restartNeeds().sameFiles()) {
                findings.add(files(present.job().get(), present.trees(), peers, expected));
            }
            add(title + " (" + introduced.node().hostName() + ")", findings);
        }
    }

    private static Finding files(
            Job job, Map<Integer, List<ProcessIdentity>> trees, Connector.TargetRequests peers, JobFiles expected) {
        FileComparison.PeerQuery there = (look, limit) -> {
            Message answer = peers.request(() -> look, limit);
            if (answer instanceof FilesInspected seen) {
                return seen;
            }
            throw new IOException("the target answers with " + answer);
        };
        NativePrograms programs = NativePrograms.fromSystemProperty();
        try (FileLooker looker = FileLooker.start(programs, job.user(), new ContentDigests(), () -> false)) {
            Optional<String> why = new FileComparison(
                            job.user(), looker, expected, path -> true, there, new ProcessTable())
                    .compare(trees);
            return why.map(text -> Finding.fail("files", text, ""))
                    .orElse(Finding.ok("files", "what the job has open or mapped is there, too"));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Finding.fail("files", "interrupted", "check again");
        } catch (IOException | CheckpointException e) {
            return Finding.fail("files", String.valueOf(e.getMessage()), "");
        }
    }
}
