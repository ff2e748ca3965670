package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.MovedRank;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.ComputingJob;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Eight plain processes that real CRIU streams from one node to another. Tests the waiting bytes, and their places. */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class StreamedMemoryIT {
    private static final JobUser ROOT = new JobUser(0, 0);
    private static final Duration LIMIT = Patience.of(Duration.ofMinutes(2));
    private static final int PROCESSES = 8;
    private static final long MOST_STAGED_BYTES = 64 << 20;
    private static final int POOLS = 4;
    private static final int PASSES = 20;
    private static final int PACE_MS = 1500;

    @Test
    void shouldHaveAllButFourPoolsInTheCopiesWhenTheLastPageLeavesTheSource() throws Exception {
        move(256 << 20);
    }

    @Test
    void shouldHaveAllButFourPoolsInTheCopiesWhenTheProcessesHaveFourGiB() throws Exception {
        move(512 << 20);
    }

    private static void move(long bytesEach) throws Exception {
        try (Testbed testbed = Testbed.create("memory")) {
            TwoNodes nodes = new TwoNodes(testbed, "");
            ComputingJob job = new ComputingJob(
                    nodes.bin().resolve("selfckpt-job"), ROOT, testbed.folder("job"), PROCESSES, bytesEach);
            String tool = TwoNodes.criu("auto");
            String staging = "allow_root_jobs = true\n[staging]\nlimit = \"" + (MOST_STAGED_BYTES >> 20) + "m\"\n";
            nodes.startServices(
                    "services", job.toml("memory", "criu") + tool, staging + tool + "trusted_users = [0]\n", "");
            job.start(nodes.a(), new NativePrograms(nodes.bin()).launch(), PASSES, PACE_MS, 2);
            job.markBefore();
            MigrationReport report;
            try (ControlClient client = new ControlClient(nodes.socket())) {
                client.start("memory", true);
                report = client.awaitReport(LIMIT, progress -> {});
            }
            assertEquals(
                    Outcome.COMMITTED,
                    report.outcome(),
                    () -> report.reason() + "; pages " + report.pages() + logs(nodes));
            assertTrue(report.pages().startsWith("streamed: "), report.pages());
            assertTrue(report.images().bytes() > PROCESSES * bytesEach, report.toString());
            assertTrue(report.images().stagedBytes() <= MOST_STAGED_BYTES, report.toString());
            assertTrue(
                    report.images().bytesReadWhenLastWritten()
                            >= report.images().bytes() - POOLS * report.memory().poolBytes(),
                    report.toString());
            job.markMoved(
                    nodes.b(), report.ranks().stream().collect(Collectors.toMap(MovedRank::rank, MovedRank::pids)));
            job.startExpectations();
            try {
                for (ComputingJob.ProcessOutcome outcome : job.finish(LIMIT)) {
                    assertTrue(outcome.continued() && outcome.resultOk(), outcome.toString());
                }
            } finally {
                job.stopExpectations();
            }
        }
    }

    private static String logs(TwoNodes nodes) {
        try {
            return "\n" + nodes.logEnds();
        } catch (IOException e) {
            return "\n" + e.getMessage();
        }
    }
}
