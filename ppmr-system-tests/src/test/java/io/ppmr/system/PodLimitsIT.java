package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.pods.PodStatus;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The limits of a pod that moves, on nodes with cgroups of version 1. */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodLimitsIT {
    private static final String POD = "1/limited";
    private static final String MEMORY = "/sys/fs/cgroup/memory/ppmr-pod-1-limited/";
    private static final String TASKS = "/sys/fs/cgroup/pids/ppmr-pod-1-limited/";

    private static Testbed testbed;
    private static MovingNode a;
    private static MovingNode b;

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(
                Files.isDirectory(Path.of("/sys/fs/cgroup/memory"))
                        && Files.isDirectory(Path.of("/sys/fs/cgroup/pids")),
                "needs cgroups of version 1 for memory and tasks");
        testbed = Testbed.create("limits");
        String limits = "tmp = \"8m\"\nshm = \"8m\"\nmemory = \"64m\"\ntasks = 20";
        a = new MovingNode(testbed, 1, limits);
        b = new MovingNode(testbed, 2, limits);
        MovingNode.connect(a, b);
        a.useCgroups();
        b.useCgroups();
        a.start();
        b.start();
    }

    @AfterAll
    static void end() throws IOException {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static void requireLimits(MovingNode node) throws Exception {
        assertEquals(
                "67108864", node.run("cat", MEMORY + "memory.limit_in_bytes").strip());
        assertEquals("20", node.run("cat", TASKS + "pids.max").strip());
        long members = node.run("cat", MEMORY + "cgroup.procs").lines().count();
        assertTrue(members >= 2, members + " processes are limited");
        assertEquals(members, node.run("cat", TASKS + "cgroup.procs").lines().count());
    }

    private static void requireNone(MovingNode node) throws Exception {
        assertEquals("", node.run("sh", "-c", "ls -d " + MEMORY + " " + TASKS + " 2>/dev/null || true"));
    }

    @Test
    void shouldHaveTheSameLimitsThereWhenItIsMovedAndBackAndNoneLeftWhenItIsStopped() throws Exception {
        PodStatus pod = a.runPodAt("limited", "10.20.0.14", "sh", "-c", "echo waits; sleep 600 & wait");
        a.await(pod, "waits");
        requireLimits(a);
        PpmrCommand moved = a.move(POD, b);
        assertEquals(0, moved.exitCode(), moved.said());
        requireLimits(b);
        requireNone(a);
        Files.createFile(a.folder().resolve("fail"));
        PpmrCommand failed = b.move(POD, a);
        assertNotEquals(0, failed.exitCode(), failed.said());
        Files.delete(a.folder().resolve("fail"));
        requireLimits(b);
        requireNone(a);
        PpmrCommand back = b.move(POD, a);
        assertEquals(0, back.exitCode(), back.said());
        requireLimits(a);
        requireNone(b);
        PpmrCommand stopped =
                PpmrCommand.run("pod", "stop", "--socket", a.socket().toString(), POD);
        assertEquals(0, stopped.exitCode(), stopped.said());
        requireNone(a);
        assertEquals(List.of(), a.list("source"));
    }
}
