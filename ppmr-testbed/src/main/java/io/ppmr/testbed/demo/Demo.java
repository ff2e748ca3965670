package io.ppmr.testbed.demo;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.cli.Main;
import io.ppmr.cli.ProgressView;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.log.ServiceLog;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.MigrationText;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.ComputingJob;
import io.ppmr.testbed.SizeConverter;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.ServiceLoader;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * The program {@code ppmr demo}. It moves jobs between nodes made on this machine, one after the other, and proves that
 * they continued. Each job has services that moved none before.
 */
@Command(
        name = "ppmr demo",
        description = {
            "Makes isolated nodes on this machine and moves jobs of several processes from one to the other:",
            "processes that checkpoint themselves, streamed; ordinary processes with CRIU; and, of an Open MPI job over"
                    + " three nodes, one node's ranks with their address and their connections. Needs root.",
            "Everything that it makes is gone afterwards."
        },
        mixinStandardHelpOptions = true)
public final class Demo implements Callable<Integer> {
    private static final JobUser ORDINARY_USER = new JobUser(20001, 20001);
    private static final int MAX_PROCESSES = 64;
    private static final long MIN_SIZE_BYTES = 1 << 20;
    private static final int PASSES = 30;
    private static final int PACE_MS = 400;
    /** One more pass for each of these that the services took to be ready: two and a half times as long. */
    private static final long PASS_FOR_NS = 160_000_000;

    private static final int PASSES_BEFORE = 3;
    private static final Duration SILENCE_LIMIT = Duration.ofSeconds(90);
    private static final Duration FINISH_LIMIT = Duration.ofMinutes(5);
    private static final Path MEMORY = Path.of("/dev/shm");

    /** The checkpointers that can be shown. */
    enum DemoKind {
        BLCR,
        CRIU,
        MPI
    }

    @Spec
    private CommandSpec spec;

    @Option(names = "--checkpointer", paramLabel = "blcr|criu|mpi", description = "show this one only (default: all)")
    private DemoKind checkpointer;

    @Option(
            names = "--processes",
            paramLabel = "N",
            defaultValue = "4",
            description = "processes of each job (default: ${DEFAULT-VALUE})")
    private int processes;

    @Option(
            names = "--size",
            paramLabel = "SIZE",
            defaultValue = "128m",
            converter = SizeConverter.class,
            description = "memory of each process (default: ${DEFAULT-VALUE})")
    private long sizeBytes;

    @Option(
            names = "--old-kernel",
            description = "let both nodes have of this kernel what Linux 3.10 has; blcr alone, x86-64 alone")
    private boolean oldKernel;

    @Option(names = "--json", paramLabel = "FILE", description = "write the figures there, too")
    private Path json;

    private PrintWriter out;
    private Testbed testbed;
    private TwoNodes nodes;

    public static void main(String[] arguments) {
        ServiceLog.begin(System.getenv(), "ppmr-demo");
        PrintWriter out = new PrintWriter(System.out, true, StandardCharsets.UTF_8);
        PrintWriter err = new PrintWriter(System.err, true, StandardCharsets.UTF_8);
        System.exit(Main.execute(new Demo(), arguments, out, err));
    }

    @Override
    public Integer call() throws Exception {
        requireSense();
        out = spec.commandLine().getOut();
        List<DemoKind> wanted = checkpointer == null ? List.of(DemoKind.values()) : List.of(checkpointer);
        DemoReport report;
        try (Testbed made = Testbed.create("demo")) {
            testbed = made;
            report = run(wanted);
        } catch (IOException | IllegalStateException | CommandFailure e) {
            // Removing the nodes under the running demo causes many failures, which are of no interest after Ctrl-C.
            if (testbed != null && testbed.closedEarly()) {
                throw new CommandFailure(
                        ExitCode.FAILED, "received a signal to end: the nodes and all in them are removed", e);
            }
            throw e;
        }
        if (json != null) {
            report.write(json);
        }
        return (report.good() ? ExitCode.OK : ExitCode.FAILED).number();
    }

    private void requireSense() throws CommandFailure, IOException {
        if (!Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0)) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    "the demo makes namespaces and mounts, so it must be run as root: sudo ./ppmr demo");
        }
        if (!Files.exists(Path.of("/dev/fuse"))) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    "/dev/fuse is not here, so nothing can be mounted: modprobe fuse, or in a container --device"
                            + " /dev/fuse");
        }
        if (oldKernel
                && (checkpointer != DemoKind.BLCR
                        || !System.getProperty("os.arch").equals("amd64"))) {
            throw new CommandFailure(
                    ExitCode.USAGE, "--old-kernel is for --checkpointer blcr, on x86-64: CRIU needs a newer kernel");
        }
        if (processes < 1 || processes > MAX_PROCESSES || sizeBytes < MIN_SIZE_BYTES) {
            throw new CommandFailure(
                    ExitCode.USAGE, "the demo moves 1 to " + MAX_PROCESSES + " processes of at least 1m each");
        }
    }

    private DemoReport run(List<DemoKind> wanted) throws Exception {
        List<DemoKind> possible = new ArrayList<>(wanted);
        List<String> leftOut = new ArrayList<>();
        String noCriu = possible.equals(List.of(DemoKind.BLCR)) ? "" : whyNoCriu();
        String noMpi = noCriu.isEmpty() && possible.contains(DemoKind.MPI) ? whyNoMpi() : noCriu;
        leaveOut(DemoKind.CRIU, "ordinary processes with CRIU", noCriu, possible, leftOut);
        leaveOut(DemoKind.MPI, "an MPI job with its connections", noMpi, possible, leftOut);
        leftOut.forEach(out::println);
        List<DemoReport.DemoMigration> migrations = new ArrayList<>();
        if (possible.contains(DemoKind.BLCR) || possible.contains(DemoKind.CRIU)) {
            makeTwoNodes();
        }
        for (DemoKind shown : possible) {
            migrations.add(shown == DemoKind.MPI ? showMpi() : show(shown));
        }
        leftOut.forEach(out::println);
        return DemoReport.of(migrations);
    }

    private void leaveOut(DemoKind shown, String what, String why, List<DemoKind> possible, List<String> leftOut)
            throws CommandFailure {
        if (!why.isEmpty() && possible.remove(shown)) {
            if (checkpointer != null) {
                throw new CommandFailure(ExitCode.FAILED, what + " cannot be shown here: " + why);
            }
            leftOut.add("Left out: " + what + ", because " + why);
        }
    }

    /** Finds what an optional part shows. */
    private static Optional<DemoAct> act() {
        return ServiceLoader.load(DemoAct.class).findFirst();
    }

    private static String whyNoMpi() throws IOException, InterruptedException {
        Optional<DemoAct> act = act();
        return act.isPresent() ? act.get().whyNot().orElse("") : "the part of ppmr that moves one is not installed";
    }

    private DemoReport.DemoMigration showMpi() throws Exception {
        try {
            return act().orElseThrow().show(testbed, out);
        } catch (IOException e) {
            throw new CommandFailure(ExitCode.FAILED, e.getMessage(), e);
        }
    }

    private void makeTwoNodes() throws Exception {
        nodes = new TwoNodes(testbed, "");
        if (oldKernel) {
            nodes.useOldKernel();
            out.println("Both have of this kernel what Linux 3.10 has: newer system calls fail, newer fields of /proc"
                    + " are hidden.");
        }
        out.printf(
                "Two nodes: %s (%s) and %s (%s), each with PIDs, mounts, network and host name of its own.%n",
                nodes.a().name(), TwoNodes.ADDRESS_A, nodes.b().name(), TwoNodes.ADDRESS_B);
    }

    /** Returns the reason why CRIU is not available, or empty if it is. */
    private static String whyNoCriu() {
        Availability found = CheckpointerSettings.Criu.of(CheckpointerConfig.criu(System.getenv()))
                .create("criu", NativePrograms.fromSystemProperty())
                .probe();
        return found.available() ? "" : found.detail() + " (" + found.remedy() + ")";
    }

    private DemoReport.DemoMigration show(DemoKind shown) throws Exception {
        String name = shown.name().toLowerCase(Locale.ROOT);
        boolean selfMade = shown == DemoKind.BLCR;
        out.println();
        out.printf(
                "%s: %d processes of %s%n",
                selfMade
                        ? "Processes that checkpoint themselves (BLCR's commands and stream), streamed"
                        : "Ordinary processes with threads, a child and shared memory, with CRIU, streamed",
                processes,
                MigrationText.mib(sizeBytes));
        ComputingJob job = new ComputingJob(
                nodes.bin().resolve(selfMade ? "selfckpt-job" : "plain-job"),
                ORDINARY_USER,
                testbed.folder("job-" + name, ORDINARY_USER),
                processes,
                sizeBytes);
        String tool = selfMade ? nodes.blcr(nodes.bin().resolve("cr_restart")) : TwoNodes.criu("auto");
        long startNs = System.nanoTime();
        // CRIU restarts as root, so the target's configuration must name the users whose jobs it may restore.
        String trust = selfMade ? "" : "trusted_users = [" + ORDINARY_USER.uid() + "]\n";
        nodes.startServices(name, job.toml("demo", name) + tool, target() + tool + trust, "");
        out.println("Both services are ready; the job starts in " + nodes.a().name() + ".");
        try {
            // The job must still run when it is moved. On a busy machine every step needs more time.
            return migrate(shown, job, PASSES + (int) ((System.nanoTime() - startNs) / PASS_FOR_NS));
        } catch (IOException e) {
            throw new CommandFailure(ExitCode.FAILED, e.getMessage() + "\n" + nodes.logEnds(), e);
        } finally {
            job.stopExpectations();
            nodes.stopServices();
        }
    }

    private String target() throws IOException {
        // All of a retained image may have to wait, which is its memory and CRIU's other files.
        long stagingMib = processes * sizeBytes / (1 << 20) * 5 / 4 + 256;
        boolean fits = Files.isDirectory(MEMORY) && Files.getFileStore(MEMORY).getUsableSpace() >> 20 > stagingMib;
        return """
                unknown_users = true
                [staging]
                directory = "%s"
                limit = "%dm"
                """.formatted(fits ? MEMORY : testbed.folder(), stagingMib);
    }

    private DemoReport.DemoMigration migrate(DemoKind shown, ComputingJob job, int passes) throws Exception {
        job.start(nodes.a(), new NativePrograms(nodes.bin()).launch(), passes, PACE_MS, PASSES_BEFORE);
        out.println("It computes: passes made: " + job.passes());
        Timeline timeline = new Timeline();
        ProgressView view = new ProgressView(out, ProgressView.onTerminal());
        MigrationReport report;
        try (ControlClient watcher = new ControlClient(nodes.socket())) {
            watcher.watch();
            job.markBefore();
            Process command = trigger(shown);
            report = watcher.awaitReport(SILENCE_LIMIT, progress -> {
                timeline.add(progress);
                view.show(progress);
            });
            if (command != null && !command.waitFor(60, TimeUnit.SECONDS)) {
                throw new IOException("ppmr migrate has not ended after the migration");
            }
        }
        boolean committed = report.outcome() == MigrationReport.Outcome.COMMITTED;
        job.markMoved(
                nodes.b(),
                report.ranks().stream()
                        .collect(Collectors.toMap(MigrationReport.MovedRank::rank, MigrationReport.MovedRank::pids)));
        job.startExpectations();
        view.report(report);
        if (shown == DemoKind.BLCR && committed) {
            timeline.print(out, report);
        }
        out.printf(
                Locale.ROOT,
                "Peak resident memory: source %s, target %s (pool %s).%n",
                MigrationText.mib(report.memory().sourcePeakRssBytes()),
                MigrationText.mib(report.memory().targetPeakRssBytes()),
                MigrationText.mib(report.memory().poolBytes()));
        out.println("Passes made when it was over: " + job.passes() + "; now they are let finish.");
        List<ComputingJob.ProcessOutcome> results = job.finish(FINISH_LIMIT);
        for (ComputingJob.ProcessOutcome result : results) {
            out.printf(
                    "  rank %d: %s; %s%n",
                    result.rank(),
                    result.continued()
                            ? "continued from where it was, the original is gone"
                            : "DID NOT GO ON from where it was",
                    result.resultOk() ? "result equals that of an undisturbed run" : "RESULT IS WRONG OR MISSING");
        }
        return new DemoReport.DemoMigration(report, results, null);
    }

    /** Uses the job manager's signal for one kind, and the command for the other. Returns the command's process. */
    private Process trigger(DemoKind shown) throws IOException, InterruptedException {
        if (shown == DemoKind.BLCR) {
            out.println("SIGUSR2 to the source's service:");
            nodes.source().signal("USR2");
            return null;
        }
        out.println("ppmr migrate, over the source's control socket:");
        return nodes.a()
                .command(nodes.java()
                        .with(List.of(
                                "migrate",
                                "--no-progress",
                                "--socket",
                                nodes.socket().toString())))
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }
}
