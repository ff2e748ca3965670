package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.testbed.ClusterNodes;
import io.ppmr.cluster.testbed.ClusterNodes.ClusterNode;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
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
        load(loaded, "7.50");
        load(free, "0.25");
        for (ClusterNode spare : List.of(loaded, free)) {
            spare.beginTarget(ClusterNodes.quoted(control), "migrations = 2\n", criu() + """
                    [staging]
                    limit = "64m"
                    """);
        }
        source.beginSource(
                ClusterNodes.quoted(control),
                "",
                criu() + """
                [target]
                cluster = true
                addresses = ["%s:%d"]
                """.formatted(loaded.address(), ClusterNodes.TARGET_PORT) + job("first") + job("second"));
        for (ClusterNode node : List.of(source, loaded, free)) {
            ClusterNodes.await(control.socket("controller"), node, "up", Duration.ofSeconds(60));
        }
    }

    /** Has the processes of a node see a load of its own: namespaces of one kernel share one. */
    private static void load(ClusterNode node, String minute) throws Exception {
        Path file = Files.writeString(node.folder().resolve("loadavg"), minute + " 0.00 0.00 1/100 1000\n");
        node.node().run(LIMIT, "mount", "--bind", file.toString(), "/proc/loadavg");
    }

    private static String criu() {
        return """
                [checkpointers.criu]
                type = "criu"
                landlock = "allow"
                trusted_users = [%d]
                program = [%s]
                """.formatted(
                        USER,
                        CheckpointerConfig.criu(System.getenv()).stream()
                                .map(word -> "\"" + word + "\"")
                                .collect(Collectors.joining(", ")));
    }

    private static String job(String name) {
        return """
                [jobs.%1$s]
                user = %2$d
                group = %2$d
                checkpointer = "criu"
                ranks = [{rank = 0, pid_file = "%3$s/%1$s.pid"}]
                """.formatted(name, USER, testbed.folder());
    }

    @AfterAll
    static void end() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static MigrationReport migrate(String job) throws Exception {
        source.node()
                .startDetached(
                        testbed.folder().resolve(job + ".pid"),
                        List.of(
                                "setpriv",
                                "--reuid",
                                "" + USER,
                                "--regid",
                                "" + USER,
                                "--clear-groups",
                                "setsid",
                                "sleep",
                                "1000"));
        try (ControlClient client = new ControlClient(source.socket("source"))) {
            client.start(job, true);
            return client.awaitReport(LIMIT, progress -> {});
        }
    }

    private static boolean runsAt(ClusterNode node) throws Exception {
        return node.node()
                .run(LIMIT, "sh", "-c", "pgrep -u " + USER + " sleep || true")
                .lines()
                .anyMatch(line -> line.matches("\\d+"));
    }

    @Test
    @Order(1)
    void shouldTakeTheLeastLoadedSpareWhenAJobIsMoved() throws Exception {
        MigrationReport report = migrate("first");
        assertEquals(MigrationReport.Outcome.COMMITTED, report.outcome(), report.toString());
        assertTrue(runsAt(free));
        assertTrue(!runsAt(loaded) && !runsAt(source));
    }

    @Test
    @Order(2)
    void shouldUseTheListWhenNoControllerAnswers() throws Exception {
        controller.kill();
        MigrationReport report = migrate("second");
        assertEquals(MigrationReport.Outcome.COMMITTED, report.outcome(), report.toString());
        assertTrue(runsAt(loaded));
    }
}
