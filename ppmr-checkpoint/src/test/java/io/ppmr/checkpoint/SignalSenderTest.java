package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests signals by identity, on a kernel with pidfds and on one without. */
@Timeout(120)
class SignalSenderTest {
    private static final Duration LIMIT = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    private final ProcessTable table = new ProcessTable();
    private final List<Process> started = new ArrayList<>();

    @AfterEach
    void endAll() {
        started.forEach(Process::destroyForcibly);
    }

    private SignalSender sender(boolean descriptors) {
        Set<KernelFeatures.Feature> features = descriptors ? EnumSet.allOf(KernelFeatures.Feature.class) : Set.of();
        return new SignalSender(table, KernelFeatures.of("3.10.108", features));
    }

    private Process start(String... words) throws Exception {
        Process process = new ProcessBuilder(words).start();
        started.add(process);
        return process;
    }

    private ProcessIdentity identity(Process process) throws CheckpointException {
        return table.of((int) process.pid());
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void shouldStopSetGoingAndEndAProcess(boolean descriptors) throws Exception {
        SignalSender signals = sender(descriptors);
        Process process = start("sleep", "60");
        ProcessIdentity identity = identity(process);
        assertTrue(signals.send(Signal.STOP, identity));
        assertTrue(Polling.until(LIMIT, () -> table.isHeld(identity)));
        assertTrue(signals.send(Signal.CONT, identity));
        assertTrue(Polling.until(LIMIT, () -> table.isRunning(identity)));
        assertTrue(signals.send(Signal.KILL, identity));
        assertTrue(process.waitFor(60, TimeUnit.SECONDS));
        assertEquals(128 + 9, process.exitValue());
        assertFalse(signals.send(Signal.KILL, identity), "it is gone");
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void shouldEndAProcessThatIsStopped(boolean descriptors) throws Exception {
        SignalSender signals = sender(descriptors);
        Process process = start("sleep", "60");
        ProcessIdentity identity = identity(process);
        signals.send(Signal.STOP, identity);
        assertTrue(Polling.until(LIMIT, () -> table.isHeld(identity)));
        assertEquals(List.of(), signals.sendAll(Signal.KILL, List.of(identity)));
        assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    }

    @Test
    void shouldLeaveAProcessRunningThatTakesASignalWhenThereAreNoDescriptors() throws Exception {
        Process process = start("sh", "-c", "trap 'echo taken' TERM; echo ready; while :; do sleep 0.05; done");
        try (BufferedReader output = process.inputReader()) {
            assertEquals("ready", output.readLine());
            assertTrue(sender(false).send(Signal.TERM, identity(process)));
            assertEquals("taken", output.readLine());
            ProcessIdentity identity = identity(process);
            assertTrue(Polling.until(LIMIT, () -> table.isRunning(identity)));
        }
    }

    @Test
    void shouldLeaveWhatTheJobHadStoppedWhenItIsSentASignal() throws Exception {
        Process process = start("sh", "-c", "trap 'echo taken' TERM; echo ready; while :; do sleep 0.05; done");
        try (BufferedReader output = process.inputReader()) {
            assertEquals("ready", output.readLine());
            ProcessIdentity identity = identity(process);
            SignalSender signals = sender(false);
            signals.send(Signal.STOP, identity);
            assertTrue(Polling.until(LIMIT, () -> table.isHeld(identity)));
            assertTrue(signals.send(Signal.TERM, identity));
            assertTrue(table.isHeld(identity), "it was stopped before, and stays so");
            signals.send(Signal.CONT, identity);
            assertEquals("taken", output.readLine());
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void shouldNotTouchAnotherProcessOfThatPid(boolean descriptors) throws Exception {
        Process stranger = start("sleep", "60");
        ProcessIdentity its = identity(stranger);
        ProcessIdentity former =
                new ProcessIdentity(its.bootId(), its.pidNamespace(), its.pid(), its.startTimeTicks() - 1);
        for (Signal signal : Signal.values()) {
            assertFalse(sender(descriptors).send(signal, former));
        }
        assertTrue(table.isRunning(its));
    }

    /**
     * Returns a sender without descriptors for which the PID of a process is reused between two checks.
     *
     * @param looks number of checks that still find the former process
     */
    private SignalSender late(ProcessIdentity former, int looks) {
        AtomicInteger left = new AtomicInteger(looks);
        return new SignalSender(
                table,
                KernelFeatures.of("3.10.108", Set.of()),
                pid -> left.getAndDecrement() > 0 ? Optional.of(former) : table.find(pid));
    }

    @ParameterizedTest
    // The check after the stop before a signal; the check after a harmless signal.
    @CsvSource({"KILL, 1", "TERM, 1", "STOP, 1", "STOP, 2", "CONT, 2"})
    void shouldSetGoingWhoTookThePidAndSaySoWhenALookAfterTheSignalFindsAnother(Signal signal, int looks)
            throws Exception {
        Process stranger = start("sleep", "60");
        ProcessIdentity its = identity(stranger);
        ProcessIdentity former =
                new ProcessIdentity(its.bootId(), its.pidNamespace(), its.pid(), its.startTimeTicks() - 1);
        assertFalse(late(former, looks).send(signal, former), "the one that it was meant for is gone");
        assertTrue(Polling.until(LIMIT, () -> table.isRunning(its)), "it was stopped, and is continued again");
        assertTrue(stranger.isAlive());
    }

    /** A stopped process that gets no processor shows as running until it does. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void shouldSetAProcessGoingWhenItIsStillOnItsWayIntoAStop(boolean descriptors) throws Exception {
        SignalSender signals = sender(descriptors);
        Process starved = start("taskset", "-c", firstProcessor(), "chrt", "--idle", "0", "sleep", "60");
        ProcessIdentity identity = identity(starved);
        assertTrue(Polling.until(LIMIT, () -> command(identity).startsWith("sleep")));
        start("taskset", "-c", firstProcessor(), "sh", "-c", "while :; do :; done");
        for (int times = 0; times < 10; times++) {
            assertTrue(Polling.until(LIMIT, () -> state(identity) == 'S'));
            assertTrue(signals.send(Signal.STOP, identity));
            signals.resume(0, List.of(identity), LIMIT);
            assertTrue(Polling.until(LIMIT, () -> state(identity) != 'R'));
            assertTrue(table.isRunning(identity), "it is stopped, and nobody continues it any more");
        }
    }

    private static String firstProcessor() throws IOException {
        String allowed = Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("Cpus_allowed_list:"))
                .findFirst()
                .orElseThrow();
        return allowed.split("\\s+", -1)[1].split("[-,]", -1)[0];
    }

    private static String command(ProcessIdentity process) throws IOException {
        return Files.readString(Path.of("/proc/" + process.pid() + "/cmdline"));
    }

    private static char state(ProcessIdentity process) throws IOException {
        return ProcStat.read("/proc/" + process.pid() + "/stat").orElseThrow().state();
    }
}
