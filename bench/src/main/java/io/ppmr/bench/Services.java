package io.ppmr.bench;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.cli.config.KeyFile;
import io.ppmr.cli.control.ControlClient;
import io.ppmr.cli.demo.JavaCommand;
import io.ppmr.cli.demo.ServiceProcess;
import io.ppmr.cli.service.RefusedException;
import io.ppmr.source.MigrationProgress;
import io.ppmr.source.MigrationReport;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The two services of the product, one in each node, as an operator would start them. */
final class Services implements Closeable {
    private static final Duration READY_LIMIT = Duration.ofSeconds(60);
    private static final Duration SILENCE_LIMIT = Duration.ofSeconds(90);
    private static final double TICKS_A_SECOND = 100;

    private final int processes;
    private final TwoNodes nodes;
    private final Path folder;
    private final ServiceProcess source;
    private final ServiceProcess target;

    /**
     * Starts both and waits until they are ready.
     *
     * @param restartProgram what restores a rank: cr_restart, or something that does more before it
     */
    Services(TwoNodes nodes, Path folder, StageOptions options, int processes, String restartProgram)
            throws IOException, InterruptedException {
        this.nodes = nodes;
        this.folder = folder;
        this.processes = processes;
        KeyFile.create(folder.resolve("key"));
        String tool = """
                [checkpointers.blcr]
                type = "blcr"
                checkpoint_program = "%1$s/cr_checkpoint"
                restart_program = "%2$s"
                kernel_module = false
                [pool]
                size = "%3$dk"
                chunk = "%4$dk"
                """.formatted(nodes.bin(), restartProgram, options.poolBytes >> 10, options.chunkBytes >> 10);
        Files.writeString(folder.resolve("source.toml"), sourceToml(options.connections) + tool);
        Files.writeString(folder.resolve("target.toml"), """
                listen = "%2$s:7411"
                mount = "%1$s/mount-b"
                work_directory = "%1$s/work-b"
                control_socket = "%1$s/target.sock"
                key_file = "%1$s/key"
                allow_root_jobs = true
                transport = "tcp"
                """.formatted(folder, TwoNodes.ADDRESS_B) + tool);
        NativePrograms programs = new NativePrograms(nodes.bin());
        JavaCommand java = JavaCommand.from(System.getenv(), nodes.bin());
        target = ServiceProcess.start(
                nodes.b(),
                java,
                List.of("target", "--config", folder.resolve("target.toml").toString()),
                folder.resolve("target.log"),
                programs);
        source = ServiceProcess.start(
                nodes.a(),
                java,
                List.of("source", "--config", folder.resolve("source.toml").toString()),
                folder.resolve("source.log"),
                programs);
        target.awaitReady(READY_LIMIT);
        source.awaitReady(READY_LIMIT);
    }

    private String sourceToml(int connections) {
        String ranks = IntStream.range(0, processes)
                .mapToObj(rank -> "{rank = " + rank + ", pid_file = \"" + nodes.pidFile(rank) + "\"}")
                .collect(Collectors.joining(", "));
        return """
                mount = "%1$s/mount-a"
                work_directory = "%1$s/work-a"
                control_socket = "%1$s/source.sock"
                key_file = "%1$s/key"
                transport = "tcp"
                [target]
                address = "%2$s:7411"
                connections = %3$d
                [jobs.bench]
                user = 0
                group = 0
                checkpointer = "blcr"
                ranks = [%4$s]
                """.formatted(folder, TwoNodes.ADDRESS_B, connections, ranks);
    }

    /** Moves the job, which must have been started, and takes the migration apart. */
    Run migrate(String strategy) throws BenchFailure, IOException {
        double cpuBefore = cpuSeconds();
        Marks marks = new Marks();
        MigrationReport report;
        try (ControlClient client = new ControlClient(folder.resolve("source.sock"))) {
            client.start("bench", true);
            report = client.awaitReport(SILENCE_LIMIT, marks::add);
        } catch (RefusedException e) {
            throw new BenchFailure("the source refuses to migrate: " + e.getMessage());
        }
        if (report.outcome() != MigrationReport.Outcome.COMMITTED) {
            throw new BenchFailure("the migration ended with " + report.outcome() + ": " + report.reason() + "\n"
                    + source.logEnd(20) + "\n" + target.logEnd(20));
        }
        return marks.phases(strategy, report)
                .run(cpuSeconds() - cpuBefore, Math.max(report.sourcePeakRssBytes(), report.targetPeakRssBytes()));
    }

    ServiceProcess source() {
        return source;
    }

    ServiceProcess target() {
        return target;
    }

    private double cpuSeconds() throws IOException {
        double ticks = 0;
        for (ServiceProcess service : List.of(source, target)) {
            String stat = Files.readString(
                    Path.of("/proc", Integer.toString(service.identity().pid()), "stat"));
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
            ticks += Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
        }
        return ticks / TICKS_A_SECOND;
    }

    @Override
    public void close() throws IOException {
        try {
            source.close();
        } finally {
            target.close();
        }
    }

    /** When bytes were first and last seen to be written, to arrive and to be read. */
    private static final class Marks {
        private double firstSent;
        private double firstArrived;
        private double lastArrived;
        private double lastRead;
        private long arrived;
        private long read;

        private void add(MigrationProgress progress) {
            firstSent = firstSent == 0 && progress.sentBytes() > 0 ? progress.seconds() : firstSent;
            firstArrived = firstArrived == 0 && progress.arrivedBytes() > 0 ? progress.seconds() : firstArrived;
            if (progress.arrivedBytes() > arrived) {
                arrived = progress.arrivedBytes();
                lastArrived = progress.seconds();
            }
            if (progress.readBytes() > read) {
                read = progress.readBytes();
                lastRead = progress.seconds();
            }
        }

        private Phases phases(String strategy, MigrationReport report) {
            double begun = firstSent == 0 ? report.firstByteReadSeconds() : firstSent;
            double end = Math.max(lastRead, report.lastByteWrittenSeconds());
            Map<String, double[]> phases = new LinkedHashMap<>();
            phases.put("suspend", new double[] {0, begun});
            phases.put("write", new double[] {begun, report.lastByteWrittenSeconds()});
            phases.put("transfer", new double[] {
                firstArrived == 0 ? begun : firstArrived, Math.max(lastArrived, report.lastByteWrittenSeconds())
            });
            phases.put("read", new double[] {report.firstByteReadSeconds(), end});
            phases.put("reconnect", new double[] {end, report.seconds()});
            return Phases.of(strategy, report.bytes(), report.seconds(), phases);
        }
    }
}
