package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests the process table and signals, with real processes. */
@Timeout(120)
class ProcessTableIT {
    private final ProcessTable table = new ProcessTable();
    private final SignalSender signals = new SignalSender(table);
    private Process shell;

    @BeforeEach
    void setUp() throws Exception {
        shell = new ProcessBuilder("/bin/sh", "-c", "sleep 60 & sleep 60; exit 0").start();
        assertTrue(
                Polling.until(Duration.ofSeconds(10), () -> table.tree(root()).size() == 3));
    }

    @AfterEach
    void tearDown() throws Exception {
        signals.sendAll(SignalSender.Signal.KILL, table.tree(root()));
        assertTrue(shell.waitFor(60, TimeUnit.SECONDS));
    }

    private ProcessIdentity root() throws CheckpointException {
        return table.find((int) shell.pid()).orElse(new ProcessIdentity("gone", 0, (int) shell.pid(), 0));
    }

    @Test
    void shouldListATreeRootFirst() throws Exception {
        List<ProcessIdentity> tree = table.tree(root());
        assertEquals(root(), tree.get(0));
        assertTrue(table.inNamespace(table.ownPidNamespace()).containsAll(tree));
    }

    @Test
    void shouldTellHeldFromRunning() throws Exception {
        List<ProcessIdentity> tree = table.tree(root());
        assertTrue(table.whyNotHeld(tree).orElseThrow().contains("instead of T"));
        signals.sendAll(SignalSender.Signal.STOP, tree);
        assertTrue(Polling.until(
                Duration.ofSeconds(10), () -> table.whyNotHeld(tree).isEmpty()));
        assertTrue(table.isHeld(root()));
        assertFalse(table.isRunning(root()));
        signals.send(SignalSender.Signal.CONT, tree.get(1));
        assertTrue(Polling.until(Duration.ofSeconds(10), () -> table.isRunning(tree.get(1))));
        assertTrue(table.whyNotHeld(tree)
                .orElseThrow()
                .contains("PID " + tree.get(1).pid()));
    }

    @Test
    void shouldNotSignalAProcessThatOnlySharesThePid() throws Exception {
        ProcessIdentity now = root();
        for (ProcessIdentity other : List.of(
                new ProcessIdentity(now.bootId(), now.pidNamespace(), now.pid(), now.startTimeTicks() - 1),
                new ProcessIdentity(now.bootId(), now.pidNamespace() + 1, now.pid(), now.startTimeTicks()),
                new ProcessIdentity("another boot", now.pidNamespace(), now.pid(), now.startTimeTicks()))) {
            assertFalse(signals.send(SignalSender.Signal.KILL, other));
        }
        assertTrue(table.isAlive(now));
    }

    @Test
    void shouldSignalTheOthersAndKeepNoDescriptorsWhenSomeAreGone() throws Exception {
        List<ProcessIdentity> tree = table.tree(root());
        ProcessIdentity stranger = new ProcessIdentity(
                tree.get(0).bootId(), tree.get(0).pidNamespace(), tree.get(0).pid(), 1);
        ProcessIdentity nobody =
                new ProcessIdentity(tree.get(0).bootId(), tree.get(0).pidNamespace(), 4_194_303, 1);
        List<ProcessIdentity> all = List.of(stranger, tree.get(1), nobody, tree.get(2));
        long before = descriptors();
        for (int i = 0; i < 500; i++) {
            assertEquals(List.of(stranger, nobody), signals.sendAll(SignalSender.Signal.STOP, all));
        }
        assertTrue(descriptors() < before + 100, () -> before + " descriptors before, too many now");
        assertTrue(Polling.until(Duration.ofSeconds(10), () -> table.isHeld(tree.get(1)) && table.isHeld(tree.get(2))));
        assertTrue(table.isRunning(tree.get(0)), "a stranger with another start time has got the signal");
    }

    private static long descriptors() throws IOException {
        try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
            return all.count();
        }
    }

    @Test
    void shouldCountAZombieAsGone() throws Exception {
        ProcessIdentity child = table.tree(root()).get(1);
        signals.send(SignalSender.Signal.STOP, root());
        signals.send(SignalSender.Signal.KILL, child);
        assertTrue(Polling.until(Duration.ofSeconds(10), () -> !table.isAlive(child)));
        assertEquals(Optional.empty(), table.find(child.pid()));
        assertEquals(
                "PID " + child.pid() + " is gone",
                table.whyNotHeld(List.of(child)).orElseThrow());
    }

    @Test
    void shouldTakeAProcessThatEndsInBetweenForNobodysAndForNoInit() throws Exception {
        ProcessIdentity child = table.tree(root()).get(1);
        JobUser another = new JobUser(12345, 12345);
        assertThrows(CheckpointException.class, () -> table.requireOwner(child, another));
        signals.send(SignalSender.Signal.STOP, root());
        signals.send(SignalSender.Signal.KILL, child);
        assertTrue(Polling.until(Duration.ofSeconds(10), () -> !table.isAlive(child)));
        table.requireOwner(child, another);
        assertFalse(table.isNamespaceInit(child));
        assertThrows(CheckpointException.class, () -> table.pidInside(child));
    }

    @Test
    void shouldTellWhatCannotBeListedFromWhatHasEnded() {
        // This is the state without a free descriptor. A process whose threads cannot be listed would count as held.
        String message = assertThrows(UncheckedIOException.class, () -> ProcessTable.numbers("/proc/self/status"))
                .getMessage();
        assertTrue(message.contains("/proc/self/status"), message);
        assertEquals(List.of(), ProcessTable.numbers("/proc/" + Integer.MAX_VALUE + "/task"));
    }

    /** Some kernels protect the first process even from root. The other processes of the search are found. */
    @Test
    void shouldNotCountAProcessAsGoneWhenItMayNotBeLookedAt() throws Exception {
        Assumptions.assumeTrue(isKeptFromSight(1), "PID 1 may be looked at here");
        String message =
                assertThrows(UncheckedIOException.class, () -> table.find(1)).getMessage();
        assertTrue(message.startsWith("the namespaces of PID 1 may not be read. Remedy: "), message);
        assertTrue(table.inNamespace(table.ownPidNamespace()).contains(root()));
    }

    private static boolean isKeptFromSight(int pid) throws IOException {
        try {
            Files.readSymbolicLink(Path.of("/proc/" + pid + "/ns/pid"));
            return false;
        } catch (AccessDeniedException e) {
            return true;
        }
    }

    @Test
    void shouldNameAPidThatDoesNotExist() {
        String message = assertThrows(CheckpointException.class, () -> table.of(Integer.MAX_VALUE))
                .getMessage();
        assertTrue(message.contains(Integer.toString(Integer.MAX_VALUE)) && message.contains("Remedy"), message);
    }
}
