package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.NodeSystemd;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.Timeout;

/**
 * Jobs that are moved by services with the limits of ppmr's units, between two nodes that have a systemd each. What a
 * unit denies its service must not change what is moved, and how.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Tag("soak")
@Timeout(value = 600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class UnitLimitsIT {
    private static final int SEEDS = 60;
    /** State that only root can give to a job. */
    private static final Set<String> ROOTS_ALONE = Set.of("every-raw", "every-packet", "so-busy-poll");

    private static final long MEMORY_BYTES = 64L << 20;

    private JobNodes nodes;

    @BeforeAll
    void start() throws Exception {
        JobNodes.assumePossible();
        Assumptions.assumeTrue(NodeSystemd.isPossible(), "needs systemd (package systemd; it need not run)");
        nodes = JobNodes.underSystemd("unit-limits").warmedUp(2).start();
    }

    @AfterAll
    void stop() throws IOException {
        if (nodes != null) {
            nodes.close();
        }
    }

    @Test
    void shouldWarmUp() throws Exception {
        for (String log : List.of(nodes.source().log(), nodes.target().log())) {
            assertTrue(log.contains("warm-up: 2 migrations in "), log);
        }
    }

    @Test
    void shouldStreamAJobsMemory() throws Exception {
        try (JobNodes.Running job = nodes.large(MEMORY_BYTES)) {
            MigrationReport report = nodes.migrate("one");
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.pages().startsWith("streamed: "), report.pages());
            job.requireTurns();
        }
    }

    /** The services set options, owners and settings of the copy. */
    @Test
    void shouldMoveStateThatCriuLeavesOut() throws Exception {
        List<String> kinds = new ArrayList<>(LeftOutStateIT.MOVED_BY_US);
        kinds.removeAll(ROOTS_ALONE);
        Path folder = nodes.folderOfJob();
        String line = "cd $0 && echo $$ >pid && exec " + LeftOutStateIT.PROGRAM + " " + String.join(",", kinds) + " $0";
        try (JobNodes.Running job = nodes.run(folder, List.of("sh", "-c", line, folder.toString()))) {
            MigrationReport report = nodes.migrate("one");
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
        }
    }

    @Test
    void shouldMoveOrRefuseJobsAsServicesWithoutLimitsDo() {
        List<String> wrong = new ArrayList<>();
        for (long seed = 1; seed <= SEEDS; seed++) {
            FeatureJobsIT.complaint(nodes, seed).ifPresent(wrong::add);
        }
        assertEquals(List.of(), wrong, () -> String.join("\n", wrong));
    }
}
