package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.testbed.ClusterNodes;
import io.ppmr.cluster.testbed.ClusterNodes.ClusterNode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
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

/**
 * A cluster of six nodes whose controller has a fence command: the nodes that it switches off, and those that it does
 * not. The command waits until the test has seen it, and proves the node off.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@Timeout(value = 600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class FenceIT {
    private static final Duration START = Duration.ofSeconds(60);
    private static final Duration SESSION = Duration.ofSeconds(2);
    private static final Duration TICK = Duration.ofMillis(500);
    private static final Duration DELAY = Duration.ofSeconds(3);
    private static final Duration GRACE = SESSION.plus(Duration.ofSeconds(10));

    private Testbed testbed;
    private ClusterNode control;
    private ServiceProcess controller;
    private final List<ClusterNode> nodes = new ArrayList<>();

    @BeforeAll
    void start() throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: nodes are namespaces");
        testbed = Testbed.create("fence");
        ClusterNodes cluster = new ClusterNodes(testbed, TICK.toMillis() + "ms", SESSION.toSeconds() + "s");
        control = cluster.add("control");
        startController();
        for (int i = 1; i <= 6; i++) {
            ClusterNode node = cluster.add("n" + i);
            nodes.add(node);
            boot(node);
            startTarget(node);
        }
        for (ClusterNode node : nodes) {
            await(node, "up", START);
        }
        // Until then the ends of sessions prove nothing, since the controller has just begun.
        LockSupport.parkNanos(GRACE.toNanos());
    }

    private void startController() throws Exception {
        controller = control.controller("""
                [fence]
                command = ["sh", "-c", 'touch %1$s/asked-$PPMR_NODE; until [ -e %1$s/off-{node} ]; do sleep 0.1; done']
                delay = "%2$ds"
                deadline = "60s"
                """.formatted(testbed.folder(), DELAY.toSeconds()));
    }

    /** Gives the node a boot ID of its own: all nodes of a test have one kernel. */
    private void boot(ClusterNode node) throws Exception {
        Path file = Files.writeString(node.folder().resolve("boot"), UUID.randomUUID() + "\n");
        node.node().run(START, "mount", "--bind", file.toString(), "/proc/sys/kernel/random/boot_id");
    }

    private void startTarget(ClusterNode node) throws Exception {
        node.beginTarget(ClusterNodes.quoted(control), "", ClusterNodes.noCheckpointer());
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

    private boolean isAsked(ClusterNode node) {
        return Files.exists(testbed.folder().resolve("asked-" + node.host()));
    }

    private void prove(ClusterNode node) throws Exception {
        Files.createFile(testbed.folder().resolve("off-" + node.host()));
    }

    private String state(ClusterNode node) throws Exception {
        return ClusterNodes.state(control.socket("controller"), node);
    }

    @Test
    @Order(1)
    void shouldFenceALostNodeAfterTheDelayAndBeOffWhenTheCommandHasProvedIt() throws Exception {
        ClusterNode node = nodes.get(0);
        node.node().kill();
        await(node, "suspect", SESSION.plus(TICK.multipliedBy(2)).plus(Duration.ofSeconds(7)));
        Conditions.until(Patience.of(DELAY.plus(Duration.ofSeconds(10))), "the command is run", () -> isAsked(node));
        await(node, "fencing", Duration.ofSeconds(5));
        prove(node);
        await(node, "off", Duration.ofSeconds(10));
        for (ClusterNode other : nodes.subList(1, 6)) {
            assertEquals("up", state(other));
            assertFalse(isAsked(other));
        }
    }

    @Test
    @Order(2)
    void shouldNotFenceANodeThatAnswersAgainWithinTheDelay() throws Exception {
        ClusterNode node = nodes.get(1);
        node.cable(false);
        await(node, "suspect", SESSION.plus(TICK.multipliedBy(2)).plus(Duration.ofSeconds(7)));
        node.cable(true);
        await(node, "up", START);
        assertFalse(isAsked(node));
    }

    /** The controller dies while its command runs. The next one asks it again, and waits for its answer. */
    @Test
    @Tag("soak")
    @Order(3)
    void shouldAskTheCommandAgainWhenTheControllerDiesWhileItRuns() throws Exception {
        ClusterNode node = nodes.get(1);
        node.node().kill();
        Conditions.until(
                Patience.of(DELAY.plus(GRACE).plus(Duration.ofSeconds(20))), "the command is run", () -> isAsked(node));
        controller.kill();
        control.stop(controller);
        Files.delete(testbed.folder().resolve("asked-" + node.host()));
        startController();
        Conditions.until(Patience.of(START), "the command is run again", () -> isAsked(node));
        await(node, "fencing", START);
        prove(node);
        await(node, "off", Duration.ofSeconds(10));
    }

    /** Two were fenced within the hour, so a third one must wait for an operator. */
    @Test
    @Tag("soak")
    @Order(4)
    void shouldFenceNoFurtherNodeWhenManyAreLostAndLogTheCommandOfAnOperator() throws Exception {
        ClusterNode node = nodes.get(2);
        LockSupport.parkNanos(GRACE.toNanos());
        node.cable(false);
        await(node, "suspect", GRACE.plus(SESSION).plus(Duration.ofSeconds(8)));
        Conditions.until(Patience.of(DELAY.plus(Duration.ofSeconds(10))), "the log has the reason", () -> controller
                .log()
                .contains("not fenced: " + node.host()));
        assertTrue(controller.log().contains("ppmr nodes off NODE"), controller.logEnd(20));
        assertFalse(isAsked(node));
        assertEquals("suspect", state(node));
        node.cable(true);
        await(node, "up", START);
    }

    @Test
    @Tag("soak")
    @Order(5)
    void shouldLogAnErrorWhenANodeThatAnOperatorReportedAsOffComesBackWithItsBoot() throws Exception {
        ClusterNode node = nodes.get(3);
        node.cable(false);
        await(node, "suspect", SESSION.plus(TICK.multipliedBy(2)).plus(Duration.ofSeconds(8)));
        PpmrCommand off = PpmrCommand.run(
                "nodes",
                "off",
                node.host(),
                "--socket",
                control.socket("controller").toString());
        assertEquals(0, off.exitCode(), off.said());
        await(node, "off", Duration.ofSeconds(5));
        node.cable(true);
        await(node, "up", START);
        assertTrue(controller.log().contains("that was wrong. Remedy: check what was done"), controller.logEnd(20));
    }
}
