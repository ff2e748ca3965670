package io.ppmr.pods.testbed;

import io.ppmr.cli.ProgressView;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.linux.Command;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.ComputingJob;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.demo.DemoAct;
import io.ppmr.testbed.demo.DemoReport;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * An unmodified Open MPI job of six ranks in pods of three nodes. One node's pod is moved to another node with its
 * address and its connections, while the job computes. All its resources belong to the {@link Testbed}. It is for one
 * thread.
 */
public final class MpiAct implements DemoAct {
    private static final String MPI = "openmpi";
    private static final int NODES = 3;
    private static final String MOVED = BridgedNode.USER + "/ring2";
    private static final int PAUSE_US = 2000;
    private static final Duration LIMIT = Patience.of(Duration.ofMinutes(2));
    private static final long SILENCE_S = 90;
    private static final int REPORTS = 3;

    private final List<BridgedNode> nodes = new ArrayList<>();
    private Testbed testbed;
    private PrintWriter out;

    @Override
    public Optional<String> whyNot() throws IOException, InterruptedException {
        boolean crun =
                Command.of(List.of("sh", "-c", "command -v crun")).run(LIMIT).succeeded();
        return crun ? MpiRing.whyNot(MPI) : Optional.of("crun, which makes pods, is not installed");
    }

    @Override
    public DemoReport.DemoMigration show(Testbed on, PrintWriter to) throws Exception {
        testbed = on;
        out = to;
        out.println();
        out.println("An Open MPI job of six ranks in pods of three nodes, one of which moves with its address:");
        List<String> criu = CheckpointerConfig.criu(System.getenv());
        try (MpiRing ring = testbed.add(MpiRing.create(MPI))) {
            List<String> pods = new ArrayList<>();
            for (int number = 1; number <= NODES; number++) {
                BridgedNode node = new BridgedNode(testbed, number, criu, ring.template());
                nodes.add(node);
                if (number > 1) {
                    BridgedNode.connect(nodes.get(0), node);
                }
                node.startSource();
                node.runPod("ring" + number, "10.20.0.1" + number, "sleep", "infinity");
                pods.add(BridgedNode.USER + "/ring" + number + " " + node.socket());
            }
            nodes.get(2).startTarget();
            out.println("The pods have the addresses 10.20.0.11, 10.20.0.12 and 10.20.0.13.");
            return run(ring, pods);
        }
    }

    private DemoReport.DemoMigration run(MpiRing ring, List<String> pods) throws Exception {
        Path stop = ring.folder().resolve("stop");
        Path output = testbed.folder().resolve("mpirun.log");
        List<String> words = new ArrayList<>(ring.openMpi(pods));
        words.addAll(List.of(ring.program(MPI), "1", Integer.toString(PAUSE_US), stop.toString()));
        Process job = new ProcessBuilder(nodes.get(0).words(words.toArray(String[]::new)))
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        try {
            awaitMoreRounds(job, output);
            MigrationReport report = migrate();
            awaitMoreRounds(job, output);
            Files.createFile(stop);
            if (!job.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS) || job.exitValue() != 0) {
                throw new IOException("mpirun has not ended well: " + Files.readString(output));
            }
            MpiRing.Result result = MpiRing.Result.of(Files.readString(output));
            boolean right = ring.apart(pods, result.rounds()).sum().equals(result.sum());
            out.printf(
                    Locale.ROOT,
                    "The job has ended after %d rounds; %s. Longest time of a rank without a block: %.2f s.%n",
                    result.rounds(),
                    right ? "its result equals that of a run without pods" : "ITS RESULT IS WRONG",
                    result.longestGapSeconds());
            List<ComputingJob.ProcessOutcome> ranks = new ArrayList<>();
            for (int rank = 0; rank < 2 * NODES; rank++) {
                // The result is a sum over what every rank has received and checked.
                ranks.add(new ComputingJob.ProcessOutcome(rank, right, right));
            }
            return new DemoReport.DemoMigration(report, ranks, result.longestGapSeconds());
        } finally {
            job.destroyForcibly();
        }
    }

    private static void awaitMoreRounds(Process job, Path output) throws Exception {
        long wanted = rounds(output) + REPORTS;
        Conditions.until(LIMIT, "the ranks exchange blocks", () -> {
            if (!job.isAlive()) {
                throw new IOException("mpirun ended: " + Files.readString(output));
            }
            return rounds(output) >= wanted;
        });
    }

    /** Counts the lines of the job's output. It prints one for each hundred rounds. */
    private static long rounds(Path output) throws IOException {
        return Files.readString(output)
                .lines()
                .filter(line -> line.startsWith("round"))
                .count();
    }

    private MigrationReport migrate() throws Exception {
        BridgedNode from = nodes.get(1);
        BridgedNode to = nodes.get(2);
        out.println("It computes. ppmr migrate " + MOVED + " --to " + to.endpoint() + ", on the second node:");
        ProgressView view = new ProgressView(out, ProgressView.onTerminal());
        try (ControlClient watcher = new ControlClient(from.socket())) {
            watcher.watch();
            List<String> words = ServiceProcess.command(
                    "migrate", "--no-progress", "--socket", from.socket().toString(), MOVED, "--to", to.endpoint());
            Process command = new ProcessBuilder(from.words(words.toArray(String[]::new)))
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
            MigrationReport report = watcher.awaitReport(Duration.ofSeconds(SILENCE_S), view::show);
            if (!command.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS)) {
                command.destroyForcibly();
                throw new IOException("ppmr migrate has not ended after the migration");
            }
            view.report(report);
            return report;
        }
    }
}
