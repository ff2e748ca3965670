package io.ppmr.bench;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.ComputingJob;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The two services of the product in two nodes, and a job that can be moved repeatedly. Its processes checkpoint
 * themselves, or they are plain processes, which CRIU moves.
 */
record Services(StageOptions options, TwoNodes nodes, ComputingJob job) {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final Duration SILENCE_LIMIT = Duration.ofSeconds(90);
    private static final JobUser ROOT = new JobUser(0, 0);
    /** The user of plain processes. A copy that belongs to root is not filled while it runs. */
    private static final JobUser USER = new JobUser(41_399, 41_399);
    /** The end of a strategy's name: copies are held until they are whole. */
    private static final String HELD = "-held";

    private static final int PASSES = 1_000_000;
    private static final int PACE_MS = 500;
    private static final int SMALL_IMAGES_MIB = 64;

    /** Makes the nodes. The services are {@linkplain #start started} separately. */
    static Services of(Testbed testbed, StageOptions options, String link, int processes, long bytesEach)
            throws Exception {
        TwoNodes nodes = new TwoNodes(testbed, link);
        Path program = nodes.bin().resolve("selfckpt-job");
        return new Services(
                options, nodes, new ComputingJob(program, ROOT, testbed.folder("job"), processes, bytesEach));
    }

    /**
     * Makes the nodes with plain processes. Their services are started by {@link #startCriu}.
     *
     * @param shape the shape of their memory, an argument of shaped-job
     */
    static Services plain(
            Testbed testbed,
            StageOptions options,
            String link,
            int processes,
            long bytesEach,
            String shape,
            long writtenBytes)
            throws Exception {
        TwoNodes nodes = new TwoNodes(testbed, link);
        Path program = nodes.bin().resolve("shaped-job");
        return new Services(
                options,
                nodes,
                new ComputingJob(
                        program,
                        USER,
                        testbed.folder("job", USER),
                        processes,
                        bytesEach,
                        "--shape",
                        shape,
                        "--writes",
                        Long.toString(writtenBytes / processes)));
    }

    /** Returns the program that restores a rank. */
    Path restartProgram() {
        return nodes.bin().resolve("cr_restart");
    }

    /**
     * Starts both and waits until they are ready.
     *
     * @param restartProgram what restores a rank, or something that does more before it
     */
    Services start(Path restartProgram) throws Exception {
        String connections = "connections = " + options.connections + "\n";
        nodes.startServices(
                "services",
                connections + job.toml("bench", "blcr"),
                "allow_root_jobs = true",
                nodes.blcr(restartProgram) + pool());
        return this;
    }

    /**
     * Starts both with CRIU, and waits until they are ready.
     *
     * @param how how the job's memory travels, with {@link #HELD} behind it if the copies do not run before they are
     *     whole
     */
    Services startCriu(String how) throws Exception {
        String connections = "connections = " + options.connections + "\n";
        boolean held = how.endsWith(HELD);
        String criu = TwoNodes.criu(held ? how.substring(0, how.length() - HELD.length()) : how);
        // The factor is two for a job whose processes share their memory since a fork. When it is streamed, each
        // process has its own copy.
        long stagingMib = ((2 * job.totalBytes()) >> 20) + SMALL_IMAGES_MIB;
        String target = "unknown_users = true\n[staging]\nlimit = \"" + stagingMib + "m\"\n";
        nodes.startServices(
                "services",
                connections + job.toml("bench", "criu") + criu + pool(),
                target + criu + "trusted_users = [" + USER.uid() + "]\nfill_behind = " + !held + "\n" + pool(),
                "");
        return this;
    }

    private String pool() {
        return """
                [pool]
                size = "%dk"
                chunk = "%dk"
                """.formatted(options.poolBytes >> 10, options.chunkBytes >> 10);
    }

    /** Starts the processes of the job in the first node. The memory of each is filled before this returns. */
    void startJob() throws Exception {
        job.start(nodes.a(), new NativePrograms(nodes.bin()).launch(), PASSES, PACE_MS, 1);
    }

    /** Ends the copies that were moved to the second node, so that they do not compute beside the next job. */
    void endCopies() throws IOException, InterruptedException {
        nodes.b()
                .run(
                        LIMIT,
                        "sh",
                        "-c",
                        "for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = selfckpt-job ]"
                                + " && kill -9 ${p#/proc/}; done; true");
    }

    /** Moves the job, which must run, and splits the migration into phases. */
    Run migrate(String strategy) throws IOException {
        double cpuBefore = cpuSeconds();
        Marks marks = new Marks();
        MigrationReport report;
        try (ControlClient client = new ControlClient(nodes.socket())) {
            client.start("bench", true);
            report = client.awaitReport(SILENCE_LIMIT, marks::add);
        } catch (RequestException e) {
            throw new IOException("the source refuses to migrate: " + e.getMessage());
        }
        if (report.outcome() != MigrationReport.Outcome.COMMITTED) {
            throw new IOException(
                    "the migration ended with " + report.outcome() + ": " + report.reason() + "\n" + nodes.logEnds());
        }
        Run run = Run.migration(
                strategy,
                report.images().bytes(),
                report.times().seconds(),
                marks.phases(report),
                report.times().pauseSeconds());
        run.serviceCpuSeconds = cpuSeconds() - cpuBefore;
        run.peakRssBytes =
                Math.max(report.memory().sourcePeakRssBytes(), report.memory().targetPeakRssBytes());
        return run;
    }

    private double cpuSeconds() throws IOException {
        return nodes.source().figures().cpuSeconds() + nodes.target().figures().cpuSeconds();
    }

    /** The times at which bytes were first and last seen to be written, to arrive and to be read. */
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

        private Map<String, double[]> phases(MigrationReport report) {
            double begun = firstSent == 0 ? report.times().firstByteReadSeconds() : firstSent;
            double end = Math.max(lastRead, report.times().lastByteWrittenSeconds());
            Map<String, double[]> phases = new LinkedHashMap<>();
            phases.put("suspend", new double[] {0, begun});
            phases.put("write", new double[] {begun, report.times().lastByteWrittenSeconds()});
            phases.put("transfer", new double[] {
                firstArrived == 0 ? begun : firstArrived,
                Math.max(lastArrived, report.times().lastByteWrittenSeconds())
            });
            phases.put("read", new double[] {report.times().firstByteReadSeconds(), end});
            phases.put("reconnect", new double[] {end, report.times().seconds()});
            return phases;
        }
    }
}
