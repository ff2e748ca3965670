package io.ppmr.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Nodes, and a source's service in one: start, refusal, orderly end. */
@Timeout(90)
class NodeIT {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    private final ProcessTable table = new ProcessTable();
    private Testbed testbed;
    private Path folder;
    private TestNode node;

    @BeforeEach
    void setUp() throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: nodes are namespaces");
        testbed = Testbed.create("it");
        folder = testbed.folder();
        node = testbed.add(TestNode.create("it-node"));
    }

    @AfterEach
    void tearDown() throws IOException {
        if (testbed != null) {
            testbed.close();
        }
    }

    @Test
    void shouldHaveItsOwnNameAndProcessesWhenMade() throws Exception {
        assertEquals("it-node", node.run(LIMIT, "cat", "/proc/sys/kernel/hostname"));
        assertEquals("bash", node.run(LIMIT, "cat", "/proc/1/comm"));
        assertNotEquals(table.ownPidNamespace(), node.init().pidNamespace());
        assertThrows(IOException.class, () -> node.run(LIMIT, "false"));
    }

    /** In these places jobs share by accident on one machine, and never on two. */
    @ParameterizedTest
    @ValueSource(strings = {"/tmp", "/dev/shm", "/run", "/mnt"})
    void shouldSeeNothingOfAnothersFilesThere(String place) throws Exception {
        TestNode other = testbed.add(TestNode.create("it-other"));
        Path file = Path.of(place, "ppmr-node-it-" + ProcessHandle.current().pid());
        node.run(LIMIT, "sh", "-c", "echo one >" + file);
        assertFalse(Files.exists(file), "this machine has it");
        assertThrows(IOException.class, () -> other.run(LIMIT, "cat", file.toString()));
        assertEquals("one", node.run(LIMIT, "cat", file.toString()));
    }

    @Test
    void shouldHaveTerminalsAndIpcOfItsOwn() throws Exception {
        TestNode other = testbed.add(TestNode.create("it-other"));
        String ipc = Files.readSymbolicLink(Path.of("/proc/self/ns/ipc")).toString();
        String first = node.run(LIMIT, "readlink", "/proc/self/ns/ipc");
        assertNotEquals(ipc, first);
        assertNotEquals(first, other.run(LIMIT, "readlink", "/proc/self/ns/ipc"));
        assertEquals("/dev/pts/0", node.run(LIMIT, "script", "-qc", "tty", "/dev/null"));
        assertEquals("ptmx", node.run(LIMIT, "ls", "/dev/pts"));
    }

    @Test
    void shouldSeeTheTestbedsFolderWhereverItLies() throws Exception {
        Path shared = Files.writeString(folder.resolve("shared"), "shared");
        assertEquals("shared", node.run(LIMIT, "cat", shared.toString()));
        node.run(LIMIT, "sh", "-c", "echo back >" + folder + "/back");
        assertEquals("back\n", Files.readString(folder.resolve("back")));
    }

    @Test
    void shouldReachTheOtherWhenConnected() throws Exception {
        TestNode other = testbed.add(TestNode.create("it-other"));
        TestNode.connect(node, "169.254.77.1", other, "169.254.77.2");
        assertTrue(node.run(LIMIT, "ip", "-4", "address", "show", "node0").contains("169.254.77.1/30"));
        node.run(LIMIT, "ip", "route", "get", "169.254.77.2");
    }

    @Test
    void shouldEndWithAStoppedProcessInItWhenClosed() throws Exception {
        ProcessIdentity stopped = node.startDetached(folder.resolve("pid"), List.of("sh", "-c", "kill -STOP $$"));
        Process shell = node.command(List.of("sh", "-c", "kill -STOP $$")).start();
        ProcessIdentity stoppedToo = TestNode.inside(shell);
        assertTrue(table.isAlive(stopped));
        testbed.close(node);
        assertFalse(table.isAlive(stopped));
        assertFalse(table.isAlive(stoppedToo));
        assertFalse(table.isAlive(node.init()));
        // The kernel assigns the number of its namespace to the next one.
        try (TestNode next = TestNode.create("it-next")) {
            node.close();
            assertTrue(next.isAlive());
        }
        assertTrue(shell.waitFor(60, TimeUnit.SECONDS));
    }

    private ServiceProcess beginSource() throws Exception {
        KeyFile.create(folder.resolve("key"));
        return testbed.add(ServiceProcess.begin(node, ServiceProcess.java(), "source", folder, List.of("source"), """
                control_socket = "sock"
                key_file = "key"
                [target]
                address = "127.0.0.1:9"
                [checkpointers.blcr]
                type = "blcr"
                [jobs.solver]
                user = 4711
                group = 4711
                checkpointer = "blcr"
                ranks = [{rank = 0, pid = 2}]
                """));
    }

    @Test
    void shouldServeUntilToldToEndWhenItIsASource() throws Exception {
        Assumptions.assumeTrue(Files.exists(Path.of("/dev/fuse")), "needs /dev/fuse");
        ServiceProcess source = beginSource();
        source.awaitReady(LIMIT);
        assertTrue(mounts().contains(folder.resolve("source-mount").toString()), mounts());
        String socket = folder.resolve("sock").toString();
        String status = node.run(LIMIT, command("status", "--socket", socket));
        assertTrue(status.lines().anyMatch("idle"::equals), status);
        IOException refused =
                assertThrows(IOException.class, () -> node.run(LIMIT, command("migrate", "--socket", socket)));
        assertTrue(refused.getMessage().contains("failed with status 4"), refused.getMessage());

        source.signal("TERM");
        testbed.close(source);
        assertEquals(0, source.exitValue());
        assertFalse(mounts().contains(folder.resolve("source-mount").toString()), mounts());
        assertFalse(Files.exists(folder.resolve("sock")));
    }

    @Tag("soak")
    @Test
    void shouldRefuseToArmTheTriggerWhenTheJvmMayUseItsSignal() throws Exception {
        // Written, and used once more without the variable.
        beginSource();
        String config = folder.resolve("source.toml").toString();
        IOException refused = assertThrows(IOException.class, () -> {
            String[] command = command("source", "--config", config);
            String[] without = new String[command.length + 3];
            System.arraycopy(new String[] {"env", "-u", "_JAVA_SR_SIGNUM"}, 0, without, 0, 3);
            System.arraycopy(command, 0, without, 3, command.length);
            node.run(LIMIT, without);
        });
        assertTrue(refused.getMessage().contains("failed with status 2"), refused.getMessage());
        assertTrue(refused.getMessage().contains("_JAVA_SR_SIGNUM is not set"), refused.getMessage());
    }

    private static String[] command(String... arguments) {
        return ServiceProcess.command(arguments).toArray(String[]::new);
    }

    private String mounts() throws Exception {
        return node.run(LIMIT, "cat", "/proc/self/mountinfo");
    }
}
