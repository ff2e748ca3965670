package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.record.NodeView;
import io.ppmr.cluster.testbed.ClusterNodes;
import io.ppmr.cluster.testbed.ClusterNodes.ClusterNode;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;

/** A cluster of four nodes and one controller: what {@code ppmr nodes} shows of services and nodes that are lost. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Timeout(value = 600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class NodesIT {
    private static final Duration START = Duration.ofSeconds(60);

    private final Times times = times();
    private final Duration tick = times.tick();
    private final Duration session = times.session();
    private Testbed testbed;
    private ClusterNode control;
    private ServiceProcess controller;
    private final List<ClusterNode> nodes = new ArrayList<>();
    private final Map<ClusterNode, ServiceProcess> targets = new HashMap<>();

    /** The times of the cluster, and how long its controller is frozen. */
    record Times(Duration tick, Duration session, Duration frozen) {}

    Times times() {
        return new Times(Duration.ofMillis(500), Duration.ofSeconds(2), Duration.ofSeconds(6));
    }

    /** A session's end, a probe and the witnesses' answers. */
    private Duration shown() {
        return session.plus(tick.multipliedBy(2)).plus(Duration.ofSeconds(6));
    }

    private Duration grace() {
        return session.plus(Duration.ofSeconds(10));
    }

    @BeforeAll
    void start() throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: nodes are namespaces");
        testbed = Testbed.create("nodes");
        ClusterNodes cluster = new ClusterNodes(testbed, tick.toMillis() + "ms", session.toSeconds() + "s");
        control = cluster.add("control");
        controller = control.controller("");
        for (int i = 1; i <= 4; i++) {
            ClusterNode node = cluster.add("n" + i);
            nodes.add(node);
            targets.put(node, target(node));
        }
        for (ClusterNode node : nodes) {
            await(node, "up", START);
        }
    }

    private ServiceProcess target(ClusterNode node) throws Exception {
        return node.beginTarget(ClusterNodes.quoted(control), "", ClusterNodes.noCheckpointer());
    }

    @AfterAll
    void end() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
    }

    private void await(ClusterNode node, String state, Duration limit) throws Exception {
        try {
            ClusterNodes.await(control.socket("controller"), node, state, limit);
        } catch (Exception e) {
            throw new AssertionError(e.getMessage() + "; the controller's log ends:\n" + controller.logEnd(30), e);
        }
    }

    @Test
    @Order(1)
    void shouldShowEachNodeWithItsFiguresAtEachService() throws Exception {
        List<NodeView> shown = ClusterNodes.nodes(nodes.get(0).socket("target"));
        assertEquals(4, shown.size(), shown.toString());
        for (NodeView node : shown) {
            assertEquals("up", node.state());
            assertEquals(List.of("target"), node.roles());
            assertTrue(node.memoryBytes() > 0, node.toString());
            assertTrue(node.places() > 0, node.toString());
            assertNotEquals("?", node.release());
        }
        // A service writes its record once, and then only what has changed.
        assertEquals(
                1,
                targets.get(nodes.get(0))
                        .log()
                        .lines()
                        .filter(line -> line.contains("this service is in cluster"))
                        .count());
        PpmrCommand listed = PpmrCommand.run(
                "nodes", "--socket", control.socket("controller").toString(), "--state", "up");
        assertEquals(0, listed.exitCode(), listed.said());
        assertTrue(listed.said().contains("n3"), listed.said());
    }

    @Tag("soak")
    @Test
    @Order(2)
    void shouldBeServiceDownWhenAServiceIsKilledAndUpWhenItIsBack() throws Exception {
        ClusterNode node = nodes.get(1);
        targets.get(node).kill();
        await(node, "service-down", shown());
        node.stop(targets.get(node));
        targets.put(node, target(node));
        await(node, "up", START);
    }

    @Test
    @Order(3)
    void shouldBeSuspectWhenItsCableIsCutAndUpWhenItIsMended() throws Exception {
        ClusterNode node = nodes.get(2);
        node.cable(false);
        await(node, "suspect", shown());
        assertEquals("up", ClusterNodes.state(control.socket("controller"), nodes.get(0)));
        node.cable(true);
        await(node, "up", START);
    }

    /** Its sessions end while it sleeps, and none of the nodes is silent. */
    @Tag("soak")
    @Test
    @Order(4)
    void shouldSuspectNoNodeWhenTheControllerWasFrozen() throws Exception {
        controller.freeze();
        LockSupport.parkNanos(times.frozen().toNanos());
        controller.thaw();
        long endNs = System.nanoTime() + Patience.of(session.multipliedBy(4)).toNanos();
        int looks = 0;
        while (System.nanoTime() - endNs < 0) {
            try {
                for (ClusterNode node : nodes) {
                    assertEquals("up", ClusterNodes.state(control.socket("controller"), node), controller.logEnd(20));
                }
                looks++;
            } catch (IOException e) {
                // After the pause it must be elected again, and knows no state until then.
                assertTrue(e.getMessage().contains("no controller is active"), e.getMessage());
            }
            LockSupport.parkNanos(tick.toNanos());
        }
        assertTrue(looks > 0, "the controller shows the states again");
    }

    @Tag("soak")
    @Test
    @Order(5)
    void shouldKnowItsNodesWithoutTheirRestartWhenTheControllerIsBack() throws Exception {
        String before = Files.readString(nodes.get(0).folder().resolve("target-journal/cluster"));
        controller.kill();
        control.stop(controller);
        controller = control.controller("");
        for (ClusterNode node : nodes) {
            await(node, "up", START);
        }
        String after = Files.readString(nodes.get(0).folder().resolve("target-journal/cluster"));
        assertEquals(before.lines().findFirst(), after.lines().findFirst());
        assertTrue(targets.values().stream().allMatch(ServiceProcess::isAlive));
    }

    @Test
    @Order(6)
    void shouldBeSuspectWhenANodeIsLostAndOffWhenAnOperatorReportsIt() throws Exception {
        ClusterNode node = nodes.get(3);
        node.node().kill();
        // The controller came back a moment ago, so the end of a session proves nothing at first.
        await(node, "suspect", shown().plus(grace()));
        PpmrCommand off = PpmrCommand.run(
                "nodes",
                "off",
                node.host(),
                "--socket",
                control.socket("controller").toString());
        assertEquals(0, off.exitCode(), off.said());
        await(node, "off", shown());
        PpmrCommand alive = PpmrCommand.run(
                "nodes",
                "off",
                nodes.get(0).host(),
                "--socket",
                control.socket("controller").toString());
        assertEquals(4, alive.exitCode(), alive.said());
        assertTrue(alive.said().contains("have a session now"), alive.said());
    }

    @Tag("soak")
    @Test
    @Order(7)
    void shouldForgetANodeWhenAnOperatorWantsItAndNoServiceHasASession() throws Exception {
        PpmrCommand lost = forget(nodes.get(3));
        assertEquals(0, lost.exitCode(), lost.said());
        await(nodes.get(3), "", shown());
        PpmrCommand alive = forget(nodes.get(0));
        assertEquals(4, alive.exitCode(), alive.said());
        assertTrue(alive.said().contains("have a session now"), alive.said());
    }

    private PpmrCommand forget(ClusterNode node) throws Exception {
        return PpmrCommand.run(
                "nodes",
                "forget",
                node.host(),
                "--socket",
                control.socket("controller").toString());
    }
}
