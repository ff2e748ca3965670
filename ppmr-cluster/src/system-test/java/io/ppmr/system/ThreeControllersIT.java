package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.testbed.ClusterNodes;
import io.ppmr.cluster.testbed.ClusterNodes.ClusterNode;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;

/** A cluster with three controllers, of which some are lost. */
@Tag("soak")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class ThreeControllersIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    private static Testbed testbed;
    private static ClusterNode node;
    private static final Map<ClusterNode, ServiceProcess> CONTROLLERS = new LinkedHashMap<>();

    @BeforeAll
    static void start() throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: nodes are namespaces");
        testbed = Testbed.create("three-controllers");
        ClusterNodes cluster = new ClusterNodes(testbed, "500ms", "2s");
        List<ClusterNode> controls = new ArrayList<>();
        for (int i = 1; i <= 3; i++) {
            controls.add(cluster.add("control-" + i));
        }
        for (int i = 1; i <= 3; i++) {
            CONTROLLERS.put(controls.get(i - 1), begin(controls, i));
        }
        for (ServiceProcess controller : CONTROLLERS.values()) {
            controller.awaitReady(LIMIT);
        }
        String quoted = controls.stream().map(ClusterNodes::quoted).collect(Collectors.joining(", "));
        node = cluster.add("n1");
        node.beginTarget(quoted, "", ClusterNodes.noCheckpointer());
        ClusterNodes.await(node.socket("target"), node, "up", Duration.ofSeconds(60));
    }

    private static ServiceProcess begin(List<ClusterNode> controls, int me) throws Exception {
        String members = controls.stream()
                .map(control -> "\"" + control.address() + "\"")
                .collect(Collectors.joining(", "));
        return controls.get(me - 1).beginController("members = [" + members + "]\nme = " + me + "\n");
    }

    @AfterAll
    static void end() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static ClusterNode active() throws Exception {
        return Conditions.get(() -> {
            for (ClusterNode control : CONTROLLERS.keySet()) {
                if (CONTROLLERS.get(control).isAlive() && summary(control).startsWith("the active controller")) {
                    return control;
                }
            }
            return null;
        });
    }

    private static String summary(ClusterNode control) throws IOException {
        try (ControlClient client = new ControlClient(control.socket("controller"))) {
            return client.status().transport();
        }
    }

    @Test
    @Order(1)
    void shouldHaveOneActiveControllerThatTheOthersName() throws Exception {
        ClusterNode active = active();
        for (ClusterNode control : CONTROLLERS.keySet()) {
            assertEquals("up", ClusterNodes.state(control.socket("controller"), node), control.host());
            assertEquals(control == active, summary(control).startsWith("the active"), control.host());
        }
    }

    @Test
    @Order(2)
    void shouldHaveAnotherActiveControllerWhenItsCableIsCut() throws Exception {
        ClusterNode before = active();
        before.cable(false);
        Conditions.until(LIMIT, "another controller is active", () -> {
            for (ClusterNode control : CONTROLLERS.keySet()) {
                if (control != before && summary(control).startsWith("the active")) {
                    return true;
                }
            }
            return false;
        });
        ClusterNodes.await(node.socket("target"), node, "up", Duration.ofSeconds(30));
        Conditions.until(LIMIT, "the one that is cut off stands down", () -> !summary(before)
                .startsWith("the active"));
        before.cable(true);
        ClusterNodes.await(before.socket("controller"), node, "up", Duration.ofSeconds(60));
    }

    @Test
    @Order(3)
    void shouldHaveAnotherActiveControllerWhenItIsKilled() throws Exception {
        ClusterNode before = active();
        CONTROLLERS.get(before).kill();
        ClusterNode after = active();
        assertNotEquals(before, after);
        ClusterNodes.await(node.socket("target"), node, "up", Duration.ofSeconds(60));
    }

    @Test
    @Order(4)
    void shouldReportThatNoControllerAnswersWhenTwoAreKilled() throws Exception {
        CONTROLLERS.get(active()).kill();
        Conditions.until(LIMIT, "no controller is active", () -> {
            PpmrCommand shown =
                    PpmrCommand.run("nodes", "--socket", node.socket("target").toString());
            return shown.exitCode() == 1 && shown.said().contains("no controller answers; tried were");
        });
        PpmrCommand status =
                PpmrCommand.run("status", "--socket", node.socket("target").toString());
        assertTrue(status.exitCode() == 0, status.said());
    }
}
