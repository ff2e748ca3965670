package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The limits of a pod that moves, on nodes with cgroups of version 1 or, as in the guest, of version 2. */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class PodLimitsIT {
    private static final String POD = "1/limited";
    private static final Path ALL = Path.of("/sys/fs/cgroup");
    private static final boolean VERSION_2 = Files.exists(ALL.resolve("cgroup.controllers"));
    private static final Path MEMORY = ALL.resolve(VERSION_2 ? "" : "memory").resolve("ppmr-pod-1-limited");
    private static final Path TASKS = ALL.resolve(VERSION_2 ? "" : "pids").resolve("ppmr-pod-1-limited");

    private static Testbed testbed;
    private static MovingNode a;
    private static MovingNode b;

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(
                VERSION_2 || (Files.isDirectory(ALL.resolve("memory")) && Files.isDirectory(ALL.resolve("pids"))),
                "needs cgroups for memory and tasks");
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
        assertEquals("67108864", read(node, MEMORY, VERSION_2 ? "memory.max" : "memory.limit_in_bytes"));
        assertEquals("20", read(node, TASKS, "pids.max"));
        long members = read(node, MEMORY, "cgroup.procs").lines().count();
        assertTrue(members >= 2, members + " processes are limited");
        assertEquals(members, read(node, TASKS, "cgroup.procs").lines().count());
    }

    private static String read(MovingNode node, Path cgroup, String file) throws Exception {
        return node.run("cat", cgroup.resolve(file).toString()).strip();
    }

    /**
     * A source does not wait for a target that failed before it could vote. That target cleans up without a request.
     */
    private static void requireNone(MovingNode node) throws Exception {
        Conditions.until(MovingNode.LIMIT, "nothing is left of the pod's cgroups", () -> node.run(
                        "sh", "-c", "ls -d " + MEMORY + " " + TASKS + " 2>/dev/null || true")
                .isEmpty());
    }

    /** The runtime has no record of this pod, so a program of ours enters it. */
    private static void requireNothingMoreInAFurtherCommand() throws Exception {
        String said = execute(
                "cat /proc/self/status /proc/self/limits /proc/self/cgroup /proc/self/environ; ls -l /proc/self/fd;"
                        + " hostname; ls /proc; pwd");
        assertTrue(said.contains("Uid:\t1\t1\t1\t1\n") && said.contains("NoNewPrivs:\t1\n"), said);
        for (String set : List.of("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")) {
            assertTrue(said.contains(set + ":\t0000000000000000\n"), set + ": " + said);
        }
        assertTrue(said.matches("(?s).*Max core file size +0 +0 .*Max locked memory +65536 +65536 .*"), said);
        assertTrue(said.matches("(?s).*" + (VERSION_2 ? "0::" : ":memory:") + ".*/ppmr-pod-1-limited\n.*"), said);
        assertTrue(said.contains("HOME=/tmp"), said);
        assertTrue(said.contains("\nlimited\n"), "the pod's host name: " + said);
        assertFalse(said.contains("PPMR") || said.contains("SOURCE"), "a variable of the service's: " + said);
        // Standard streams, which are pipes, and the folder that ls reads.
        assertEquals(3, said.lines().filter(line -> line.contains(" -> pipe:[")).count(), said);
        assertEquals(
                4, said.lines().filter(line -> line.matches(".* [0-9]+ -> .*")).count(), said);
        Confinement.require(PodLimitsIT::execute);
        String filtered = execute("grep -h Seccomp: /proc/[0-9]*/status");
        assertTrue(filtered.lines().allMatch(line -> line.equals("Seccomp:\t2")), filtered);
        assertEquals("0", execute("echo $PPID; true").strip(), "its parent is outside of the pod");
        PpmrCommand detached = PpmrCommand.run(
                "pod", "exec", "--detach", "--socket", b.socket().toString(), POD, "--", "sleep", "31337");
        assertEquals(0, detached.exitCode(), detached.said());
        assertEquals(
                "1",
                execute("for one in /proc/[0-9]*; do grep -q '3133[7]' $one/cmdline && cut -d' ' -f4 $one/stat; done;"
                                + " true")
                        .strip(),
                "the parent of what continues is the pod's init");
        PpmrCommand missing =
                PpmrCommand.run("pod", "exec", "--socket", b.socket().toString(), POD, "--", "no-such-program");
        assertEquals(125, missing.exitCode(), missing.said());
        assertTrue(missing.said().contains("no-such-program: No such file or directory"), missing.said());
        String order = "{\"request\": \"pod_exec\", \"order\": {\"name\": \"1/limited\", \"command\": [\"id\"]}}";
        String other = b.askAs(8, order);
        assertTrue(other.contains("no pod '"), other);
    }

    private static String execute(String line) throws Exception {
        PpmrCommand ran =
                PpmrCommand.run("pod", "exec", "--socket", b.socket().toString(), POD, "--", "sh", "-c", line);
        assertEquals(0, ran.exitCode(), ran.said());
        return ran.said();
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
        requireNothingMoreInAFurtherCommand();
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
