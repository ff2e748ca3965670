package io.ppmr.cli.doctor;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.ProcessIdentity;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.cli.CommandFailure;
import io.ppmr.cli.ExitCode;
import io.ppmr.cli.config.ConfigException;
import io.ppmr.cli.config.ConfiguredCheckpointers;
import io.ppmr.cli.config.ConfiguredJob;
import io.ppmr.cli.config.SourceConfig;
import io.ppmr.cli.config.TargetConfig;
import io.ppmr.cli.service.ProcessSignals;
import io.ppmr.doctor.JobProbe;
import io.ppmr.doctor.NodeCheck;
import io.ppmr.doctor.NodeProbe;
import io.ppmr.protocol.ControlMessage.Introduce;
import io.ppmr.protocol.ControlMessage.Introduced;
import io.ppmr.protocol.Finding;
import io.ppmr.protocol.JobFacts;
import io.ppmr.protocol.NodeFacts;
import io.ppmr.source.Job;
import io.ppmr.target.TargetSettings;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code ppmr doctor}: whether this node can do its part, and whether its jobs could go on at another. */
@Command(
        name = "doctor",
        description = {
            "Says whether this node can run a service of ppmr and, with --peer, whether its jobs could go on at that"
                    + " node, whose ppmr target must run. Each line is ok, warn or fail, with what helps.",
            "Ends with 0 where nothing fails, else with 1."
        },
        mixinStandardHelpOptions = true)
public final class DoctorCommand implements Callable<Integer> {
    private static final Path ROOT = Path.of("/");
    private static final long USUAL_POOL_BYTES = 8 << 20;
    private static final int USUAL_CHUNK_BYTES = 128 << 10;
    private static final Path USUAL_WORK = Path.of("/var/lib/ppmr/work");

    @Spec
    private CommandSpec spec;

    @Option(names = "--config", paramLabel = "FILE", description = "the configuration of this node's service")
    private Path config;

    @Option(names = "--peer", paramLabel = "HOST:PORT", description = "where the other node's target listens")
    private String peer;

    @Option(names = "--json", description = "print JSON")
    private boolean json;

    /** What a configuration, or the lack of one, says of this node. */
    private record Node(
            NodeCheck.Wanted wanted,
            int chunkBytes,
            Optional<PeerAuthenticator> key,
            Map<String, ConfiguredJob> jobs,
            boolean triggered) {}

    @Override
    public Integer call() throws ConfigException, IOException, CommandFailure {
        Node node = node();
        Report report = new Report();
        List<Finding> own = new ArrayList<>(NodeCheck.findings(ROOT, node.wanted()));
        own.add(signal(node.triggered()));
        report.add("this node", own);
        if (peer != null) {
            askPeer(node, report);
        }
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            report.printJson(out);
        } else {
            report.print(out);
        }
        return (report.count(Finding.Level.FAIL) == 0 ? ExitCode.OK : ExitCode.FAILED).number();
    }

    private Node node() throws ConfigException {
        if (config == null) {
            NodeCheck.Wanted usual = new NodeCheck.Wanted(
                    USUAL_POOL_BYTES,
                    USUAL_WORK,
                    Optional.empty(),
                    0,
                    ConfiguredCheckpointers.usual(System.getenv()),
                    false);
            return new Node(usual, USUAL_CHUNK_BYTES, Optional.empty(), Map.of(), true);
        }
        Map<String, Checkpointer> tools = ConfiguredCheckpointers.load(config);
        if (TargetConfig.isTarget(config)) {
            TargetSettings target = TargetConfig.load(config).settings();
            NodeCheck.Wanted wanted = new NodeCheck.Wanted(
                    target.pool().poolBytes(),
                    target.workDirectory(),
                    Optional.of(target.transfer().stagingDirectory()),
                    target.transfer().stagingLimitBytes(),
                    tools,
                    true);
            return new Node(wanted, target.pool().chunkBytes(), Optional.of(target.authenticator()), Map.of(), false);
        }
        SourceConfig source = SourceConfig.load(config);
        NodeCheck.Wanted wanted = new NodeCheck.Wanted(
                source.settings().pool().poolBytes(),
                source.settings().workDirectory(),
                Optional.empty(),
                0,
                tools,
                true);
        return new Node(
                wanted,
                source.settings().pool().chunkBytes(),
                Optional.of(source.settings().authenticator()),
                source.jobs(),
                source.triggerJob().isPresent());
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

    private void askPeer(Node node, Report report) {
        if (node.key().isEmpty()) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--peer needs --config FILE: the key stands there by which nodes know each other");
        }
        InetSocketAddress address = address();
        Map<String, JobFacts> jobs = new LinkedHashMap<>();
        node.jobs().forEach((name, job) -> {
            try {
                jobs.put("job " + name, facts(job));
            } catch (IOException | CheckpointException e) {
                report.add(
                        "job " + name,
                        List.of(Finding.warn(
                                "job", String.valueOf(e.getMessage()), "ask again when it runs: now it is left out")));
            }
        });
        if (jobs.isEmpty()) {
            jobs.put("this node", JobFacts.NONE);
        }
        NodeFacts facts = new NodeProbe(ROOT, 0, node.chunkBytes(), List.of()).facts();
        jobs.forEach((about, job) -> {
            String title = about + ", and " + peer;
            try {
                Introduced answer = PeerQuestion.ask(address, node.key().get(), new Introduce(facts, job));
                report.add(title + " (" + answer.node().hostName() + ")", answer.findings());
            } catch (IOException e) {
                report.add(title, List.of(Finding.fail("peer", String.valueOf(e.getMessage()), "")));
            }
        });
    }

    private static JobFacts facts(ConfiguredJob configured) throws IOException, CheckpointException {
        Job job = configured.resolve();
        ProcessTable processes = new ProcessTable();
        List<ProcessIdentity> roots = new ArrayList<>();
        for (Job.RankProcess rank : job.ranks()) {
            ProcessIdentity root = processes.of(rank.pid());
            processes.requireOwner(root, job.user());
            roots.add(root);
        }
        return new JobProbe(processes).facts(job.checkpointer().name(), roots);
    }

    private InetSocketAddress address() {
        int colon = peer.lastIndexOf(':');
        String port = peer.substring(colon + 1);
        if (colon <= 0 || !port.matches("[1-9]\\d{0,4}") || Integer.parseInt(port) > 0xFFFF) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--peer " + peer + " is no HOST:PORT, such as spare1:7411 or [2001:db8::1]:7411");
        }
        return new InetSocketAddress(peer.substring(0, colon).replaceAll("^\\[|]$", ""), Integer.parseInt(port));
    }
}
