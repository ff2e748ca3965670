package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.CommandStarter.Started;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Commands that the long-lived launcher starts: what they get, how their end is told, and who survives whom. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LaunchServerIT {
    private static final Path PROGRAM = new NativePrograms(Path.of(System.getProperty("ppmr.native.dir"))).launch();
    private static final Duration SOON = Duration.ofSeconds(20);

    @TempDir
    private Path directory;

    private final ProcessTable table = new ProcessTable();
    private final List<ProcessIdentity> begun = new ArrayList<>();
    private String program;
    private Path output;

    /** A program of its own name has a server of its own, which the test may end. */
    @BeforeEach
    void copyProgram() throws IOException {
        program = Files.copy(PROGRAM, directory.resolve("ppmr-launch")).toString();
        output = directory.resolve("output");
    }

    @AfterEach
    void endAll() {
        begun.forEach(process -> table.find(process.pid())
                .filter(process::equals)
                .flatMap(found -> ProcessHandle.of(found.pid()))
                .ifPresent(ProcessHandle::destroyForcibly));
    }

    private Started start(String... command) throws IOException {
        List<String> words = new ArrayList<>(List.of(program, "--"));
        words.addAll(List.of(command));
        Started started = LaunchServer.of(program).start(words, directory, output);
        table.find(started.pid()).ifPresent(begun::add);
        server().ifPresent(begun::add);
        return started;
    }

    private Optional<ProcessIdentity> server() {
        return ProcessHandle.current()
                .children()
                .filter(child -> child.info().command().filter(program::equals).isPresent())
                .findFirst()
                .flatMap(child -> table.find((int) child.pid()));
    }

    private boolean starts() {
        try {
            return end(start("true")) == 0;
        } catch (Exception e) {
            return false;
        }
    }

    private static int end(Started started) throws Exception {
        return started.exit().get(SOON.toSeconds(), TimeUnit.SECONDS);
    }

    @Test
    void shouldTellPidOutputAndStatusWhenACommandEnds() throws Exception {
        Started started = start("sh", "-c", "echo $$; pwd; exit 7");
        assertEquals(7, end(started));
        assertEquals(started.pid() + "\n" + directory + "\n", Files.readString(output));
        assertEquals(128 + 9, end(start("sh", "-c", "kill -KILL $$")));
    }

    @Test
    void shouldGiveACommandASessionNoSignalMaskAndNoDescriptors() throws Exception {
        String script = "ls -l /proc/self/fd | sed -n 's/.* \\([0-9]* ->\\)/\\1/p'; grep SigBlk /proc/self/status;"
                + " set -- $(sed 's/.*) //' /proc/$$/stat); echo session $(($4 - $$))";
        assertEquals(0, end(start("bash", "-c", script)));
        String said = Files.readString(output);
        assertTrue(said.contains("0 -> /dev/null\n1 -> pipe") && said.contains("\n2 -> " + output), said);
        assertFalse(said.matches("(?s).*\n[4-9] ->.*"), said);
        assertTrue(said.contains("SigBlk:\t0000000000000000\n"), said);
        assertTrue(said.contains("session 0\n"), said);
    }

    @Test
    void shouldSayWhyACommandCannotBeStartedAndStartTheNext() throws Exception {
        List<String> words = List.of(program, "--", "true");
        IOException e = assertThrows(
                IOException.class, () -> LaunchServer.of(program).start(words, directory.resolve("missing"), output));
        assertTrue(e.getMessage().contains("cannot be opened (error 2 of errno(3))"), e.getMessage());
        assertThrows(IOException.class, () -> LaunchServer.of(program)
                .start(List.of(program, "--", "a\0b"), directory, output));
        assertEquals(125, end(start("/no/such/program")));
        assertTrue(Files.readString(output).contains("/no/such/program"), Files.readString(output));
        assertEquals(0, end(start("true")));
    }

    @Test
    void shouldKnowTheEndOfEachWhenManyEndAtOnce() throws Exception {
        List<Started> all = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            all.add(start("sh", "-c", "exit " + i));
        }
        for (int i = 0; i < 200; i++) {
            assertEquals(i, end(all.get(i)));
        }
    }

    @Test
    void shouldNotTakeACommandForEndedOrWellWhenItsLauncherIsKilled() throws Exception {
        Started orphan = start("sleep", "600");
        ProcessIdentity process = table.of(orphan.pid());
        ProcessIdentity launcher = server().orElseThrow();
        assertTrue(ProcessHandle.of(launcher.pid()).orElseThrow().destroyForcibly());
        assertTrue(Polling.until(SOON, this::starts), "the next has a launcher of its own");
        assertTrue(table.isRunning(process), "it goes on");
        assertFalse(orphan.exit().isDone(), "it has not ended");
        assertTrue(ProcessHandle.of(orphan.pid()).orElseThrow().destroyForcibly());
        assertNotEquals(0, end(orphan));
    }

    @Test
    void shouldEndWithItsServiceAndLeaveItsCommands() throws Exception {
        Path late = directory.resolve("late");
        Process service = new ProcessBuilder(
                        "bash",
                        "-c",
                        "words=\"$1\\0$2\\0$3\\0--\\0sh\\0-c\\0sleep 1; echo done >$4\\0\";"
                                + " exec 3> >(exec \"$3\" --serve >\"$1/answers\");"
                                + " length=$(printf \"$words\" | wc -c);"
                                + " printf \"\\\\x$(printf %02x $((length % 256)))"
                                + "\\\\x$(printf %02x $((length / 256)))\\\\0\\\\0\" >&3;"
                                + " printf \"$words\" >&3;"
                                + " until [ -s \"$1/answers\" ]; do sleep 0.01; done; kill -KILL $$",
                        "bash",
                        directory.toString(),
                        output.toString(),
                        program,
                        late.toString())
                .redirectErrorStream(true)
                .start();
        assertTrue(service.waitFor(SOON.toSeconds(), TimeUnit.SECONDS));
        assertTrue(Polling.until(SOON, () -> ProcessHandle.allProcesses()
                .noneMatch(any -> any.info().command().filter(program::equals).isPresent())));
        assertTrue(Polling.until(SOON, () -> Files.exists(late)), "the command has gone on");
    }
}
