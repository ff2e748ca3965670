package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

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
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Four sources that need a spare node at one moment, and two spare nodes with two places each. */
@Tag("soak")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ClusterManySourcesIT {
    private static final int USER = 20001;
    private static final int SOURCES = 4;
    private static final int PLACES = 2;
    private static final Duration LIMIT = Patience.of(Duration.ofMinutes(2));

    private static Testbed testbed;
    private static final List<ClusterNode> SPARES = new ArrayList<>();
    private static final List<ClusterNode> LEAVES = new ArrayList<>();
    private static final List<ServiceProcess> LEAVING = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        JobNodes.assumePossible();
        testbed = Testbed.create("cluster-many");
        Files.setPosixFilePermissions(testbed.folder(), PosixFilePermissions.fromString("rwxr-xr-x"));
        ClusterNodes cluster = new ClusterNodes(testbed, "500ms", "2s");
        ClusterNode control = cluster.add("control");
        control.controller("");
        for (int i = 1; i <= 2; i++) {
            ClusterNode spare = cluster.add("spare" + i);
            spare.load("0.50");
            spare.beginTarget(
                    ClusterNodes.quoted(control), "migrations = " + PLACES + "\n", ClusterNodes.criu(USER) + """
                    [staging]
                    limit = "64m"
                    """);
            SPARES.add(spare);
        }
        for (int i = 1; i <= SOURCES; i++) {
            ClusterNode leaving = cluster.add("leaves" + i);
            LEAVING.add(leaving.beginSource(
                    ClusterNodes.quoted(control), "", ClusterNodes.criu(USER) + """
                    [target]
                    cluster = true
                    """ + cluster.job("job" + i, USER)));
            LEAVES.add(leaving);
        }
        for (int i = 0; i < SOURCES; i++) {
            ClusterNodes.await(control.socket("controller"), LEAVES.get(i), "up", Duration.ofMinutes(2));
            LEAVES.get(i).startJob("job" + (i + 1), USER);
        }
        for (ClusterNode spare : SPARES) {
            ClusterNodes.await(control.socket("controller"), spare, "up", Duration.ofMinutes(2));
        }
    }

    @AfterAll
    static void end() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static MigrationReport migrate(int number) throws Exception {
        try (ControlClient client = new ControlClient(LEAVES.get(number - 1).socket("source"))) {
            client.start("job" + number, true);
            return client.awaitReport(LIMIT, progress -> {});
        }
    }

    @Test
    void shouldFillBothSparesEquallyAndRefuseNobodyWhenFourSourcesBeginAtOnce() throws Exception {
        ExecutorService callers = Executors.newFixedThreadPool(SOURCES);
        try {
            List<Callable<MigrationReport>> moves = new ArrayList<>();
            for (int i = 1; i <= SOURCES; i++) {
                int number = i;
                moves.add(() -> migrate(number));
            }
            for (Future<MigrationReport> move : callers.invokeAll(moves, LIMIT.toSeconds(), TimeUnit.SECONDS)) {
                assertEquals(
                        MigrationReport.Outcome.COMMITTED,
                        move.get().outcome(),
                        move.get().toString());
            }
        } finally {
            callers.shutdownNow();
        }
        for (ClusterNode spare : SPARES) {
            assertEquals(PLACES, spare.jobs(USER), spare.host());
        }
        for (ServiceProcess source : LEAVING) {
            assertFalse(source.log().contains("refuse"), source.log());
        }
    }
}
