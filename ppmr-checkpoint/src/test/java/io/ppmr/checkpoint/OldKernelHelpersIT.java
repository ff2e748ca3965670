package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.linux.ProcessIdentity;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/**
 * Tests that {@code old-kernel} shows the state that was recorded on Linux 3.10, and that the native helpers then use
 * the older calls by themselves.
 */
@EnabledIfSystemProperty(named = "os.arch", matches = "amd64")
@Timeout(120)
class OldKernelHelpersIT {
    private static final Path RECORDED = Path.of("../ppmr-linux/src/test/resources/linux-3.10");
    private static final Duration LIMIT = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    private final ProcessTable table = new ProcessTable();
    private final List<Process> started = new ArrayList<>();
    private JobFixture fixture;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
    }

    @AfterEach
    void endAll() throws Exception {
        started.forEach(Process::destroyForcibly);
        if (fixture != null) {
            fixture.close();
        }
    }

    private List<String> onOldKernel(String... command) {
        List<String> words =
                new ArrayList<>(List.of(fixture.bin.resolve("old-kernel").toString()));
        words.addAll(Arrays.asList(command));
        return words;
    }

    private Command.CommandResult run(String... command) throws CheckpointException {
        return CommandStarter.call(onOldKernel(command), LIMIT);
    }

    private List<String> lines(String... command) throws CheckpointException {
        Command.CommandResult result = run(command);
        assertEquals(0, result.exitCode(), result.output());
        return result.output().lines().toList();
    }

    private static List<String> recorded(String file) throws Exception {
        return Files.readAllLines(RECORDED.resolve(file), StandardCharsets.ISO_8859_1);
    }

    private static Set<String> names(List<String> lines, Function<String, String> name) {
        return lines.stream().map(name).filter(word -> !word.isEmpty()).collect(Collectors.toCollection(TreeSet::new));
    }

    private static String field(String line) {
        int colon = line.indexOf(':');
        return colon < 0 || line.substring(0, colon).contains("-") ? "" : line.substring(0, colon);
    }

    // ---- /proc ---------------------------------------------------------------------------------------------------

    @Test
    void shouldShowNoMoreOfAProcessThanWasRecorded() throws Exception {
        assertEquals(
                names(recorded("pid-status"), OldKernelHelpersIT::field),
                names(lines("cat", "/proc/self/status"), OldKernelHelpersIT::field));
        assertEquals(
                names(recorded("pid-smaps"), OldKernelHelpersIT::field),
                names(lines("cat", "/proc/self/smaps"), OldKernelHelpersIT::field));
        assertEquals(
                names(recorded("pid-fdinfo-0"), OldKernelHelpersIT::field),
                names(lines("cat", "/proc/self/fdinfo/0"), OldKernelHelpersIT::field));
        Set<String> files = names(recorded("pid-ls"), name -> name);
        for (String name : CommandStarter.call(List.of("ls", "/proc/self"), LIMIT)
                .output()
                .lines()
                .toList()) {
            assertEquals(
                    files.contains(name) ? 0 : 1,
                    run("test", "-e", "/proc/self/" + name).exitCode(),
                    name);
        }
        for (String name : List.of("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")) {
            boolean there = recorded("pid-ns").stream().anyMatch(line -> line.contains(" " + name + " -> "));
            assertEquals(there ? 0 : 1, run("readlink", "/proc/self/ns/" + name).exitCode(), name);
        }
        String output = run("cat", "/proc/1/children").output();
        assertEquals(recorded("children").get(0).replace("84", "1"), output);
        assertEquals(recorded("pid-maps").get(0).split(" +", -1).length, 6);
    }

    @Test
    void shouldShowNoMoreOfTheNodeThanWasRecorded() throws Exception {
        Set<String> memory = names(lines("cat", "/proc/meminfo"), OldKernelHelpersIT::field);
        assertTrue(names(recorded("meminfo"), OldKernelHelpersIT::field).containsAll(memory), memory.toString());
        assertTrue(memory.contains("MemFree") && memory.contains("Inactive(file)"), memory.toString());
        Set<String> systems = names(lines("cat", "/proc/filesystems"), line -> line);
        assertTrue(names(recorded("filesystems"), line -> line).containsAll(systems), systems.toString());
        assertEquals("3.10.108", run("uname", "-r").output().strip());
        assertEquals(
                "3.10.108", run("cat", "/proc/sys/kernel/osrelease").output().strip());
    }

    // ---- helpers -------------------------------------------------------------------------------------------------

    @Test
    void shouldHaveNoDescriptorAboveTwoWhenLaunchedWithoutCloseRange() throws Exception {
        Command.CommandResult open = run("sh", "-c", "exec 5</dev/null 9</dev/null; exec ls /proc/self/fd");
        assertTrue(open.output().lines().toList().containsAll(List.of("5", "9")), open.output());
        Command.CommandResult result = run(
                "sh", "-c", "exec 5</dev/null 9</dev/null; exec " + fixture.programs.launch() + " -- ls /proc/self/fd");
        assertEquals(List.of("0", "1", "2", "3"), result.output().lines().toList(), "3 is of ls itself");
    }

    @Test
    void shouldEndWithItsNamespaceWhenTheInitHasNoDescriptorsOfProcesses() throws Exception {
        int pid = Integer.parseInt(
                lines(fixture.programs.rankInit().toString(), "--grace", "5").get(0));
        ProcessIdentity init = table.of(pid);
        Process inside =
                new ProcessBuilder("nsenter", "--target", "" + pid, "--pid", "--mount", "--", "sleep", "1").start();
        started.add(inside);
        assertTrue(inside.waitFor(60, TimeUnit.SECONDS));
        assertTrue(Polling.until(LIMIT, () -> !table.isAlive(init)), "the namespace is empty");
    }
}
