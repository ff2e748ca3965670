package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.cluster.testbed.ClusterNodes;
import io.ppmr.cluster.testbed.ClusterNodes.ClusterNode;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;

/** A source whose spare nodes the active controller chooses: real services, real jobs, real CRIU. */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class ClusterSparesIT {
    private static final int USER = 20001;
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    private static Testbed testbed;
    private static ClusterNode control;
    private static ClusterNode source;
    private static ClusterNode loaded;
    private static ClusterNode free;
    private static ServiceProcess controller;

    @BeforeAll
    static void start() throws Exception {
        JobNodes.assumePossible();
        testbed = Testbed.create("cluster-spares");
        Files.setPosixFilePermissions(testbed.folder(), PosixFilePermissions.fromString("rwxr-xr-x"));
        ClusterNodes cluster = new ClusterNodes(testbed, "500ms", "2s");
        control = cluster.add("control");
        source = cluster.add("leaves");
        loaded = cluster.add("loaded");
        free = cluster.add("free");
        controller = control.controller("");
        loaded.load("7.50");
        free.load("0.25");
        for (ClusterNode spare : List.of(loaded, free)) {
            spare.beginTarget(ClusterNodes.quoted(control), "migrations = 2\n", ClusterNodes.criu(USER) + """
                    [staging]
                    limit = "64m"
                    """);
        }
        source.beginSource(
                ClusterNodes.quoted(control),
                "",
                ClusterNodes.criu(USER)
                        + """
                [target]
                cluster = true
                addresses = ["%s:%d"]
                """.formatted(loaded.address(), ClusterNodes.TARGET_PORT)
                        + cluster.job("first", USER)
                        + cluster.job("second", USER));
        for (ClusterNode node : List.of(source, loaded, free)) {
            ClusterNodes.await(control.socket("controller"), node, "up", Duration.ofSeconds(60));
        }
    }

    @AfterAll
    static void end() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static MigrationReport migrate(String job) throws Exception {
        source.startJob(job, USER);
        try (ControlClient client = new ControlClient(source.socket("source"))) {
            client.start(job, true);
            return client.awaitReport(LIMIT, progress -> {});
        }
    }

    @Test
    @Order(1)
    void shouldTakeTheLeastLoadedSpareWhenAJobIsMoved() throws Exception {
        MigrationReport report = migrate("first");
        assertEquals(MigrationReport.Outcome.COMMITTED, report.outcome(), report.toString());
        assertEquals(1, free.jobs(USER));
        assertEquals(0, loaded.jobs(USER) + source.jobs(USER));
    }

    @Test
    @Order(2)
    void shouldUseTheListWhenNoControllerAnswers() throws Exception {
        controller.kill();
        MigrationReport report = migrate("second");
        assertEquals(MigrationReport.Outcome.COMMITTED, report.outcome(), report.toString());
        assertEquals(1, loaded.jobs(USER));
    }
}
