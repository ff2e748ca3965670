package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Patience;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Jobs with many resources of one kind, moved by a tool that takes the same time for all jobs. The services' checks of
 * a stopped job make its pause only slightly longer.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ProportionIT {
    private static final Logger LOG = LoggerFactory.getLogger(ProportionIT.class);
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final double MORE_SECONDS = 0.3;
    private static final int RUNS = 3;

    @TempDir
    private Path directory;

    private RealServices services;
    private ReplayJob replay;
    private final List<Process> jobs = new ArrayList<>();
    private final List<Integer> copies = new ArrayList<>();
    private Path pidFile;

    @BeforeEach
    void start() throws Exception {
        services = new RealServices(directory);
        replay = new ReplayJob(directory);
        replay.script("checkpoint-0", List.of("open image wcxn", "write 1m 64k", "close", "stop"));
        replay.script("restart-0", List.of("open image r", "read 1m 64k", "close", "spawn"));
        pidFile = directory.resolve("pid");
        services.startTarget(replay);
        services.startSource(
                "", "[target]\naddress = \"127.0.0.1:" + services.port() + "\"", replay.toml(), """
                [jobs.one]
                user = %d
                group = %d
                checkpointer = "replay"
                ranks = [{rank = 0, pid_file = "%s"}]
                """.formatted(
                                ReplayJob.USER.uid(), ReplayJob.USER.gid(), pidFile));
    }

    @AfterEach
    void end() throws Exception {
        for (Process job : jobs) {
            job.destroyForcibly().waitFor();
        }
        copies.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
        services.close();
        replay.close();
    }

    /** Moves such a job, and returns for how many seconds it was stopped. */
    private double pause(int threads, int things, String kind) throws Exception {
        Path folder = Files.createTempDirectory(directory, "job");
        Files.setAttribute(folder, "unix:uid", ReplayJob.USER.uid());
        Process job = new ProcessBuilder(
                        "setpriv",
                        "--reuid=" + ReplayJob.USER.uid(),
                        "--regid=" + ReplayJob.USER.gid(),
                        "--clear-groups",
                        System.getProperty("ppmr.demo.dir") + "/crowd-job",
                        "" + threads,
                        "" + things,
                        kind)
                .directory(folder.toFile())
                .redirectErrorStream(true)
                .start();
        jobs.add(job);
        byte[] said = job.getInputStream().readNBytes("ready\n".length());
        assertEquals("ready\n", new String(said, StandardCharsets.US_ASCII));
        Files.writeString(pidFile, job.pid() + "\n");
        try (ControlClient client = new ControlClient(services.socket("source"))) {
            client.start("one", true);
            MigrationReport report = client.awaitReport(LIMIT, progress -> {});
            report.ranks().forEach(rank -> copies.addAll(rank.pids()));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            return report.times().pauseSeconds();
        }
    }

    /** The least of a few, since a busy machine only adds to them. */
    private double least(int threads, int things, String kind) throws Exception {
        double least = Double.MAX_VALUE;
        for (int run = 0; run < RUNS; run++) {
            least = Math.min(least, pause(threads, things, kind));
        }
        return least;
    }

    private void addsLittle(int threads, int things, String kind) throws Exception {
        pause(1, 1, "shared");
        double plain = least(1, 1, "shared");
        double pause = least(threads, things, kind);
        LOG.info("{} threads, {} {}: a pause of {} s, and {} s of a small job", threads, things, kind, pause, plain);
        assertTrue(pause <= plain + MORE_SECONDS, "a pause of " + pause + " s, and " + plain + " s of a small job");
    }

    @Tag("soak")
    @ParameterizedTest
    @CsvSource({"1, 12000, named", "1, 26000, deep", "1, 65400, mapped", "4000, 1, shared"})
    void shouldStandStillLittleLongerWhenAJobHasMuchOfOneThing(int threads, int things, String kind) throws Exception {
        addsLittle(threads, things, kind);
    }
}
