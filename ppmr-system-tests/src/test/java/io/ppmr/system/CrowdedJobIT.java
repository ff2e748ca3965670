package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A user's job with more descriptors and threads than any needs, moved by services with their usual heap. It ends no
 * service, and delays no answer.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CrowdedJobIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    /** The promised time, and the delay of an answer on a busy machine. */
    private static final long ANSWER_NS = Duration.ofSeconds(1).toNanos();

    private static final int BEFORE = 5;

    @TempDir
    private Path directory;

    private RealServices services;
    private ReplayJob replay;
    private Process source;
    private final List<Process> jobs = new ArrayList<>();
    private final List<Integer> copies = new ArrayList<>();
    private long longestNs;

    @BeforeEach
    void start() throws Exception {
        services = new RealServices(directory);
        replay = new ReplayJob(directory);
        replay.script("checkpoint-0", List.of("open image wcxn", "write 1m 64k", "close", "stop"));
        replay.script("restart-0", List.of("open image r", "read 1m 64k", "close", "spawn"));
    }

    @AfterEach
    void end() throws Exception {
        for (Process job : jobs) {
            job.descendants().forEach(ProcessHandle::destroyForcibly);
            job.destroyForcibly().waitFor();
        }
        copies.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
        services.close();
        replay.close();
    }

    /** Starts such a job as an ordinary user. All its threads and descriptors exist when this returns. */
    private long crowd(int threads, int descriptors, String kind, int processes) throws Exception {
        Process job = new ProcessBuilder(
                        "setpriv",
                        "--reuid=" + ReplayJob.USER.uid(),
                        "--regid=" + ReplayJob.USER.gid(),
                        "--clear-groups",
                        System.getProperty("ppmr.demo.dir") + "/crowd-job",
                        "" + threads,
                        "" + descriptors,
                        kind,
                        "" + processes)
                .redirectErrorStream(true)
                .start();
        jobs.add(job);
        byte[] said = job.getInputStream().readNBytes("ready\n".length());
        assertEquals("ready\n", new String(said, StandardCharsets.US_ASCII));
        return job.pid();
    }

    private void serve(String... jobsToml) throws Exception {
        services.startTarget(replay);
        List<String> sections =
                new ArrayList<>(List.of("[target]\naddress = \"127.0.0.1:" + services.port() + "\"", replay.toml()));
        sections.addAll(List.of(jobsToml));
        source = services.startSource("trigger_job = \"crowd\"", sections.toArray(String[]::new));
    }

    private static String job(String name, long pid) {
        return """
                [jobs.%s]
                user = %d
                group = %d
                checkpointer = "replay"
                ranks = [{rank = 0, pid = %d}]
                """.formatted(name, ReplayJob.USER.uid(), ReplayJob.USER.gid(), pid);
    }

    private MigrationReport move(String job) throws Exception {
        try (ControlClient client = new ControlClient(services.socket("source"))) {
            client.start(job, true);
            MigrationReport report = client.awaitReport(LIMIT, progress -> {});
            report.ranks().forEach(rank -> copies.addAll(rank.pids()));
            return report;
        }
    }

    @Tag("soak")
    @Test
    void shouldRefuseByNameWhenAJobHasMoreDescriptorsThanTheLimitAndMoveTheNextOne() throws Exception {
        long crowd = crowd(1, 12_000, "named", 12);
        serve(job("crowd", crowd), job("other", crowd(1, 10, "shared", 1)));
        MigrationReport report = move("crowd");
        assertEquals(Outcome.REFUSED, report.outcome());
        assertTrue(
                report.reason().startsWith("rank 0 has more than 65536 files open or mapped (rank_files)"),
                report.reason());
        assertFalse(services.log("source").contains("rank 0 is written and held"), "it is refused before the pause");
        assertTrue(ProcessHandle.of(crowd).orElseThrow().isAlive());
        MigrationReport other = move("other");
        assertEquals(Outcome.COMMITTED, other.outcome(), other.reason());
    }

    /**
     * Each step of this job takes long. During that time the node's operator sends queries and triggers, and at last
     * cancels.
     */
    @Test
    @Tag("soak")
    void shouldAnswerWithinASecondWhileAJobMakesEachStepSlow() throws Exception {
        long crowd = crowd(300, 200, "own", 1);
        serve(job("crowd", crowd));
        for (int i = 0; i < BEFORE; i++) {
            answersStatus();
        }
        long longestBeforeNs = longestNs;
        longestNs = 0;
        try (ControlClient mover = new ControlClient(services.socket("source"))) {
            String id = mover.start("crowd", true).id();
            for (int i = 0; !services.log("source").contains("rank 0 is") && i < 40; i++) {
                answersStatus();
                answersSignal();
            }
            long startNs = System.nanoTime();
            boolean cancelled = cancels(id);
            answered(startNs);
            MigrationReport report = mover.awaitReport(LIMIT, progress -> {});
            report.ranks().forEach(rank -> copies.addAll(rank.pids()));
            assertTrue(
                    longestNs < ANSWER_NS + 2 * longestBeforeNs,
                    longestNs / 1_000_000 + " ms, and before " + longestBeforeNs / 1_000_000 + " ms");
            assertEquals(cancelled, report.outcome() != Outcome.COMMITTED, report.reason());
        }
    }

    private boolean cancels(String id) throws Exception {
        try (ControlClient client = new ControlClient(services.socket("source"))) {
            client.cancel(id);
            return true;
        } catch (RequestException decided) {
            return false;
        }
    }

    private void answersStatus() throws Exception {
        long startNs = System.nanoTime();
        try (ControlClient client = new ControlClient(services.socket("source"))) {
            client.status();
        }
        answered(startNs);
    }

    /** The answer to the signal is a line of the log. */
    private void answersSignal() throws Exception {
        long before = signals();
        long startNs = System.nanoTime();
        assertEquals(
                0,
                new ProcessBuilder("kill", "-USR2", "" + source.pid()).start().waitFor());
        Conditions.until("the signal is answered", () -> signals() > before);
        answered(startNs);
    }

    private long signals() throws Exception {
        return services.log("source")
                .lines()
                .filter(line -> line.contains("SIGUSR2: "))
                .count();
    }

    private void answered(long startNs) {
        longestNs = Math.max(longestNs, System.nanoTime() - startNs);
    }
}
