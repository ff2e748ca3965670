package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.migration.source.SourceSettings;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A user's checkpoint command that writes almost nothing does not prolong a migration, and a slow network may. */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LeastRateIT {
    private static final int MIB = 1 << 20;
    /** Counted over two seconds instead of thirty. */
    private static final Duration RATE_TIME = Duration.ofSeconds(2);

    @TempDir
    private Path directory;

    private ServicePair.Options options(ReplayJob job) {
        return ServicePair.Options.with(job.checkpointer()).rate(8L * MIB, RATE_TIME);
    }

    private static List<String> repeated(String first, int times, String... calls) {
        List<String> all = new ArrayList<>(List.of(first));
        for (int i = 0; i < times; i++) {
            all.addAll(List.of(calls));
        }
        all.add("close");
        return all;
    }

    private void failsByName(List<String> checkpoint) throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(checkpoint, List.of("open image r", "skim 800k 8k"));
                ServicePair pair = new ServicePair(directory, options(job))) {
            MigrationReport report = job.migrate(pair);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            assertTrue(
                    report.reason().contains("its checkpoints wrote")
                            && report.reason().contains("(min_rate)"),
                    report.reason());
            assertTrue(report.slow(), report.reason());
            assertTrue(
                    report.times().seconds() < 30,
                    () -> "it took " + report.times().seconds() + " s");
            assertTrue(job.originalsRun(), "the job does not run where it was");
        }
    }

    @Test
    void shouldRollBackByNameWhenACheckpointWritesALittleNowAndThen() throws Exception {
        failsByName(repeated("open image wcx", 100, "write 8k 8k", "pause 400"));
    }

    @Test
    @Tag("soak")
    void shouldRollBackByNameWhenACheckpointWritesNothingAtAll() throws Exception {
        failsByName(List.of("open image wcx", "pause 60000", "close"));
    }

    @Tag("soak")
    @Test
    void shouldMoveAJobOverANetworkThatIsSlowerThanTheLeastRate() throws Exception {
        long size = 12L * MIB;
        try (DelayedLink slow = new DelayedLink(Duration.ZERO, MIB);
                ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write " + size + " 64k", "close"),
                                List.of("open image r", "read " + size + " 64k", "eof"));
                ServicePair pair = new ServicePair(directory, options(job), List.of(slow.address()))) {
            slow.leadTo(pair.target().address());
            MigrationReport report = job.commits(pair);
            assertTrue(slow.hasCarried(size), "it went over the slow link");
            assertTrue(
                    report.times().lastByteWrittenSeconds() > RATE_TIME.toSeconds(),
                    () -> "it was written in " + report.times().lastByteWrittenSeconds() + " s, which shows nothing");
            assertFalse(report.slow());
        }
    }

    @Test
    @Tag("soak")
    void shouldMoveAJobWhoseRestartReadsSlowerThanTheLeastRate() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write 30m 64k", "close"),
                                repeated("open image r", 30, "read 1m 64k", "pause 250"));
                ServicePair pair = new ServicePair(directory, options(job))) {
            MigrationReport report = job.commits(pair);
            assertTrue(
                    report.times().lastByteWrittenSeconds() > RATE_TIME.toSeconds(),
                    () -> "it was written in " + report.times().lastByteWrittenSeconds() + " s, which shows nothing");
        }
    }

    /** The bounds are the usual ones. The transfer takes several times the period over which they are measured. */
    @Test
    @Tag("soak")
    @Timeout(value = 600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldMoveALargeJobOverANetworkThatIsSlowerThanTheUsualLeastRate() throws Exception {
        long size = 128L * MIB;
        try (DelayedLink slow = new DelayedLink(Duration.ZERO, MIB / 4);
                ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write " + size + " 64k", "close"),
                                List.of("open image r", "read " + size + " 64k", "eof"));
                ServicePair pair = new ServicePair(
                        directory, ServicePair.Options.with(job.checkpointer()), List.of(slow.address()))) {
            slow.leadTo(pair.target().address());
            MigrationReport report = job.commits(pair);
            assertTrue(
                    report.times().lastByteWrittenSeconds() > 3 * SourceSettings.USUAL_RATE_TIME.toSeconds(),
                    () -> "it was written in " + report.times().lastByteWrittenSeconds() + " s, which shows nothing");
        }
    }
}
