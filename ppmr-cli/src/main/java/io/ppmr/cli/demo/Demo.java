package io.ppmr.cli.demo;

import io.ppmr.checkpoint.Availability;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.cli.CommandFailure;
import io.ppmr.cli.ExitCode;
import io.ppmr.cli.ProgressView;
import io.ppmr.cli.config.ConfiguredCheckpointers;
import io.ppmr.cli.config.KeyFile;
import io.ppmr.cli.control.ControlClient;
import io.ppmr.cli.demo.DemoCommand.Shown;
import io.ppmr.source.MigrationReport;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** The demonstration: two nodes, and in them one job after the other, each with services that have moved none yet. */
final class Demo {
    /** Where the programs of the jobs are, from the launcher. */
    static final String PROGRAMS_PROPERTY = "ppmr.demo.dir";

    private static final JobUser ORDINARY_USER = new JobUser(20001, 20001);
    private static final JobUser ROOT = new JobUser(0, 0);
    private static final int CAP_SYS_RESOURCE = 24;
    private static final int SIGUSR2 = 12;
    private static final int PASSES_BEFORE = 3;
    private static final String ADDRESS_A = "169.254.77.1";
    private static final String ADDRESS_B = "169.254.77.2";
    private static final Duration READY_LIMIT = Duration.ofSeconds(60);
    private static final Duration SILENCE_LIMIT = Duration.ofSeconds(90);
    private static final Duration FINISH_LIMIT = Duration.ofMinutes(5);

    private final PrintWriter out;
    private final Belongings belongings;
    private final int processes;
    private final long sizeBytes;
    private Path bin;
    private JavaCommand java;
    private DemoFolder folder;
    private Node nodeA;
    private Node nodeB;

    Demo(PrintWriter out, Belongings belongings, int processes, long sizeBytes) {
        this.out = out;
        this.belongings = belongings;
        this.processes = processes;
        this.sizeBytes = sizeBytes;
    }

    DemoReport run(List<Shown> wanted, boolean exactly) throws Exception {
        folder = belongings.add(DemoFolder.create());
        bin = folder.programs(List.of(
                NativePrograms.fromSystemProperty().directory(), Path.of(System.getProperty(PROGRAMS_PROPERTY, ""))));
        java = JavaCommand.from(System.getenv(), bin);
        List<Shown> possible = new ArrayList<>(wanted);
        String missing = wanted.contains(Shown.CRIU) ? whyNoCriu() : "";
        if (!missing.isEmpty()) {
            if (exactly) {
                throw new CommandFailure(ExitCode.FAILED, "CRIU cannot be shown here: " + missing);
            }
            possible.remove(Shown.CRIU);
            out.println("Left out: ordinary processes with CRIU, because " + missing);
        }
        nodeA = belongings.add(Node.create("node-a"));
        nodeB = belongings.add(Node.create("node-b"));
        Node.connect(nodeA, ADDRESS_A, nodeB, ADDRESS_B);
        out.printf(
                "Two nodes: %s (%s) and %s (%s), each with PIDs, mounts, network and host name of its own.%n",
                nodeA.name(), ADDRESS_A, nodeB.name(), ADDRESS_B);
        KeyFile.create(folder.path().resolve("key"));
        List<DemoReport.Migration> migrations = new ArrayList<>();
        for (Shown shown : possible) {
            migrations.add(show(shown));
        }
        if (!missing.isEmpty()) {
            out.println("Left out: ordinary processes with CRIU, because " + missing);
        }
        return DemoReport.of(migrations);
    }

    /** Why CRIU cannot be had; empty if it can. */
    private static String whyNoCriu() {
        Availability found = CheckpointerSettings.Criu.of(ConfiguredCheckpointers.criu(System.getenv()))
                .create(NativePrograms.fromSystemProperty())
                .probe();
        return found.available() ? "" : found.detail() + " (" + found.remedy() + ")";
    }

    private DemoReport.Migration show(Shown shown) throws Exception {
        String name = shown.name().toLowerCase(Locale.ROOT);
        boolean selfMade = shown == Shown.BLCR;
        JobUser user = selfMade || hasCapability(CAP_SYS_RESOURCE) ? ORDINARY_USER : ROOT;
        out.println();
        out.printf(
                "%s: %d processes of %s%n",
                selfMade
                        ? "Processes that checkpoint themselves (BLCR's commands and stream), streamed"
                        : "Ordinary processes with threads, a child and shared memory, with CRIU, retained",
                processes,
                ProgressView.mib(sizeBytes));
        if (user.equals(ROOT)) {
            out.println("They are root's: CRIU needs CAP_SYS_RESOURCE for other users' processes, and it is not here.");
        }
        DemoJob job = new DemoJob(
                bin.resolve(selfMade ? "selfckpt-job" : "plain-job"),
                user,
                folder.folder("job-" + name, user),
                processes,
                sizeBytes);
        Files.writeString(file("a", name, "toml"), DemoConfig.source(folder.path(), name, bin, ADDRESS_B, job));
        Files.writeString(file("b", name, "toml"), DemoConfig.target(folder.path(), name, bin, ADDRESS_B, job));
        ServiceProcess target = service(nodeB, "target", "b", name);
        ServiceProcess source = service(nodeA, "source", "a", name);
        target.awaitReady(READY_LIMIT);
        source.awaitReady(READY_LIMIT);
        out.println("Both services are ready; the job starts in " + nodeA.name() + ".");
        try {
            return migrate(shown, name, job, source);
        } catch (IOException e) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    e.getMessage() + "\n--- end of the source's log\n" + source.logEnd(20)
                            + "\n--- end of the target's log\n" + target.logEnd(20),
                    e);
        } finally {
            job.stopExpectations();
            belongings.close(source);
            belongings.close(target);
        }
    }

    private Path file(String node, String name, String kind) throws IOException {
        return folder.folder(node).resolve(name + "." + kind);
    }

    private ServiceProcess service(Node node, String role, String nodeFolder, String name)
            throws IOException, InterruptedException {
        return belongings.add(ServiceProcess.start(
                node,
                java,
                List.of(role, "--config", file(nodeFolder, name, "toml").toString()),
                file(nodeFolder, name, "log"),
                new NativePrograms(bin)));
    }

    private DemoReport.Migration migrate(Shown shown, String name, DemoJob job, ServiceProcess source)
            throws Exception {
        job.start(nodeA, new NativePrograms(bin).launch(), PASSES_BEFORE);
        out.println("It computes: passes made: " + job.passes());
        Path socket = file("a", name, "sock");
        Timeline timeline = new Timeline();
        ProgressView view = new ProgressView(out, ProgressView.onTerminal());
        MigrationReport report;
        try (ControlClient watcher = new ControlClient(socket)) {
            watcher.watch();
            job.markBefore();
            Process command = trigger(shown, source, socket);
            report = watcher.awaitReport(SILENCE_LIMIT, progress -> {
                timeline.add(progress);
                view.show(progress);
            });
            if (command != null && !command.waitFor(30, TimeUnit.SECONDS)) {
                throw new IOException("ppmr migrate has not ended after the migration");
            }
        }
        boolean committed = report.outcome() == MigrationReport.Outcome.COMMITTED;
        job.markMoved(
                nodeB,
                report.ranks().stream()
                        .collect(Collectors.toMap(MigrationReport.MovedRank::rank, MigrationReport.MovedRank::pids)));
        job.startExpectations();
        view.report(report);
        if (shown == Shown.BLCR && committed) {
            timeline.print(out, report);
        }
        out.printf(
                Locale.ROOT,
                "Peak resident memory: source %s, target %s (pool %s).%n",
                ProgressView.mib(report.sourcePeakRssBytes()),
                ProgressView.mib(report.targetPeakRssBytes()),
                ProgressView.mib(report.poolBytes()));
        out.println("Passes made when it was over: " + job.passes() + "; now they are let finish.");
        List<DemoReport.ProcessResult> results = job.finish(FINISH_LIMIT);
        for (DemoReport.ProcessResult result : results) {
            out.printf(
                    "  rank %d: %s; %s%n",
                    result.rank(),
                    result.continued()
                            ? "went on from where it was, the original is gone"
                            : "DID NOT GO ON from where it was",
                    result.resultOk() ? "result equals that of an undisturbed run" : "RESULT IS WRONG OR MISSING");
        }
        return DemoReport.Migration.of(report, results);
    }

    /** By the job manager's signal for one, by the command for the other; returns the command's process. */
    private Process trigger(Shown shown, ServiceProcess source, Path socket) throws IOException {
        if (shown == Shown.BLCR) {
            out.println("SIGUSR2 to the source's service:");
            source.signal(SIGUSR2);
            return null;
        }
        out.println("ppmr migrate, over the source's control socket:");
        return nodeA.command(java.with(List.of("migrate", "--socket", socket.toString())))
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    private static boolean hasCapability(int number) throws IOException {
        String field = "CapEff:";
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith(field)) {
                return (Long.parseUnsignedLong(line.substring(field.length()).strip(), 16) >> number & 1) == 1;
            }
        }
        return false;
    }
}
