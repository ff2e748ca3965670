package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Jobs whose memory is copied while they compute, by real CRIU. The job maps, moves, unmaps, protects and writes memory
 * in several threads, forks, and checks all of it by itself, so that a lost or old page shows.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PreCopyIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    @TempDir
    private Path directory;

    private CriuJob start(int seed, int mib) throws Exception {
        CriuJob job = CriuJob.start(
                directory,
                "setsid " + System.getProperty("ppmr.demo.dir") + "/churn-job --report report --threads 2 --children 1"
                        + " --pace 50 --seed " + seed + " --mib " + mib);
        Conditions.until(LIMIT, "the job computes", () -> report(job).contains("ready"));
        return job;
    }

    private static String report(CriuJob job) throws Exception {
        return Files.exists(job.file("report")) ? Files.readString(job.file("report")) : "";
    }

    private static ServicePair.Options options(Checkpointer criu) {
        return ServicePair.Options.with(criu).alsoRootsJobs().staging(1 << 30);
    }

    private static void requireRight(CriuJob job, int pid) throws Exception {
        new ProcessBuilder("kill", "-TERM", Integer.toString(pid)).start().waitFor();
        Conditions.until(
                LIMIT,
                "the job has ended",
                () -> report(job).contains("end:") || report(job).contains("wrong"));
        assertFalse(report(job).contains("wrong"), report(job));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void shouldLoseNoWriteWhenMemoryIsCopiedWhileTheJobComputes(int seed) throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.PRECOPIED);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start(seed, 48)) {
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.pages().matches("precopied: .*round.*"), report.pages());
            System.out.println("seed " + seed + ": " + report.pages() + "; paused " + report);
            requireRight(job, report.ranks().get(0).pids().get(0));
        }
    }
}
