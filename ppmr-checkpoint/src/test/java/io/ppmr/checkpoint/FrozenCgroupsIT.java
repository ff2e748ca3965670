package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests real cgroups of version 2, if this machine permits them. */
@Timeout(120)
class FrozenCgroupsIT {
    private static final Duration LIMIT = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    private final ProcessTable table = new ProcessTable();
    private final SignalSender signals = new SignalSender(table);
    private final List<Process> started = new ArrayList<>();
    private final List<Path> made = new ArrayList<>();
    private Path mount;

    @BeforeEach
    void setUp() throws IOException {
        mount = Files.readAllLines(Path.of("/proc/self/mountinfo")).stream()
                .filter(line -> line.contains(" - cgroup2 "))
                .map(line -> Path.of(line.split(" ", -1)[4]))
                .findFirst()
                .orElse(null);
        Assumptions.assumeTrue(mount != null && Files.isWritable(mount), "no cgroups of version 2 that can be written");
    }

    @AfterEach
    void tearDown() throws Exception {
        for (Path cgroup : made) {
            write(cgroup.resolve("cgroup.freeze"), "0");
        }
        for (Process process : started) {
            process.destroyForcibly();
            assertTrue(process.waitFor(60, TimeUnit.SECONDS));
        }
        Collections.reverse(made);
        for (Path cgroup : made) {
            assertTrue(Polling.until(LIMIT, () -> Files.readString(cgroup.resolve("cgroup.procs"))
                    .isEmpty()));
            Files.delete(cgroup);
        }
    }

    private Path cgroup(Path in, String name) throws IOException {
        Path cgroup = Files.createDirectory(
                in.resolve("ppmr-" + name + "-" + ProcessHandle.current().pid()));
        made.add(cgroup);
        return cgroup;
    }

    private static void write(Path file, String text) throws IOException {
        Files.writeString(file, text, StandardOpenOption.WRITE);
    }

    private ProcessIdentity sleeper(Path cgroup) throws Exception {
        Process process = new ProcessBuilder("sleep", "600").start();
        started.add(process);
        write(cgroup.resolve("cgroup.procs"), Long.toString(process.pid()));
        return table.of((int) process.pid());
    }

    private void stop(ProcessIdentity... processes) throws Exception {
        signals.sendAll(Signal.STOP, List.of(processes));
        for (ProcessIdentity process : processes) {
            assertTrue(Polling.until(LIMIT, () -> table.isHeld(process)));
        }
    }

    private static boolean isFrozen(Path cgroup) throws IOException {
        return Files.readString(cgroup.resolve("cgroup.events")).contains("frozen 1");
    }

    /** Returns the time in user space, field 14, which is that of the program itself. */
    private static String processorTime(ProcessIdentity process) throws IOException {
        return Files.readString(Path.of("/proc/" + process.pid() + "/stat"))
                .replaceAll(".*\\) \\S+ (?:\\S+ ){10}(\\S+) .*", "$1")
                .strip();
    }

    @Test
    void shouldHoldWhatIsContinuedAndLetItGoWhenItIsThawed() throws Exception {
        Path cgroup = cgroup(mount, "a");
        Process busy = new ProcessBuilder("sh", "-c", "while :; do :; done").start();
        started.add(busy);
        write(cgroup.resolve("cgroup.procs"), Long.toString(busy.pid()));
        ProcessIdentity process = table.of((int) busy.pid());
        stop(process);
        FrozenCgroups frozen = FrozenCgroups.around(List.of(process));
        assertEquals(List.of(cgroup.toString()), frozen.paths());
        frozen.freeze();
        assertTrue(isFrozen(cgroup));
        assertTrue(table.isHeld(process), "what a signal has stopped stays stopped by it");
        String before = processorTime(process);
        signals.send(Signal.CONT, process);
        assertTrue(Polling.until(LIMIT, () -> !table.isHeld(process)));
        assertFalse(
                Polling.until(
                        Duration.ofMillis(300), () -> !processorTime(process).equals(before)),
                "a loop in it would take processor time");
        FrozenCgroups.recorded(frozen.paths()).thaw();
        assertFalse(isFrozen(cgroup));
        assertTrue(Polling.until(LIMIT, () -> !processorTime(process).equals(before)), "it continues");
    }

    @Test
    void shouldLeaveProcessesStoppedThatNobodyHasContinuedWhenItIsThawed() throws Exception {
        ProcessIdentity process = sleeper(cgroup(mount, "a"));
        stop(process);
        FrozenCgroups frozen = FrozenCgroups.around(List.of(process));
        HeldRank rank = new HeldRank(0, List.of(process), List.of());
        frozen.freeze();
        rank.requireHeld();
        frozen.thaw();
        rank.requireHeld();
        frozen.freeze();
        rank.end(LIMIT);
        frozen.thaw();
    }

    @Test
    void shouldFreezeNothingInWhichAnythingElseLives() throws Exception {
        Path cgroup = cgroup(mount, "a");
        ProcessIdentity process = sleeper(cgroup);
        Path below = cgroup(cgroup, "b");
        ProcessIdentity other = sleeper(below);
        stop(process, other);
        assertEquals(List.of(), FrozenCgroups.around(List.of(process)).paths());
        assertEquals(
                List.of(below.toString()), FrozenCgroups.around(List.of(other)).paths());
        assertEquals(
                List.of(cgroup.toString(), below.toString()),
                FrozenCgroups.around(List.of(process, other)).paths());
    }

    @Test
    void shouldLeaveACgroupToWhomHasFrozenIt() throws Exception {
        Path cgroup = cgroup(mount, "a");
        ProcessIdentity process = sleeper(cgroup);
        stop(process);
        write(cgroup.resolve("cgroup.freeze"), "1");
        assertTrue(Polling.until(LIMIT, () -> isFrozen(cgroup)));
        assertEquals(List.of(), FrozenCgroups.around(List.of(process)).paths());
    }

    @Test
    void shouldNeedNothingToThawACgroupThatIsGone() {
        FrozenCgroups.recorded(List.of(mount.resolve("ppmr-never").toString())).thaw();
        assertFalse(Files.exists(mount.resolve("ppmr-never")));
    }
}
