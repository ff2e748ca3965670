package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests commands in services of their own, with a replacement for systemd-run that runs the words after "--". A guest
 * that systemd has booted tests systemd itself, and which processes survive then.
 */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class TransientServicesIT {
    private static final NativePrograms PROGRAMS = NativePrograms.fromSystemProperty();
    private static final Duration SOON = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    @TempDir
    private Path directory;

    private Path output;
    private CommandStarter starter;

    @BeforeEach
    void makeStandIn() throws Exception {
        output = directory.resolve("tool.out");
        // As in the manager, variables are expanded, and "$$" is a dollar sign.
        starter = new TransientServices(
                Map.of(
                        "PATH",
                        "/bin:/usr/bin",
                        "NOTIFY_SOCKET",
                        "/none",
                        "IPMI_PASSWORD",
                        "a $b \\ `c` \"d\"\ne",
                        "BASH_FUNC_x%%",
                        "() { :; }"),
                script("""
                        words=
                        while [ "$1" != -- ]; do
                            words="$words $1"
                            case $1 in *=EnvironmentFile=*) file=${1##*=};; esac
                            shift
                        done
                        stat -c %%a:%%u "$file" >%1$s/mode
                        [ ! -s "$file" ] || { set -a; . "$file"; set +a; }
                        echo "$words" >%1$s/words
                        shift
                        for word; do set -- "$@" "$(echo "$word" | sed 's/\\$\\$/$/g')"; shift; done
                        exec "$@"
                        """.formatted(directory)).toString(),
                directory.resolve("run"));
    }

    private Path script(String text) throws Exception {
        Path script = directory.resolve("systemd-run");
        Files.writeString(script, "#!/bin/sh\n" + text);
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
        return script;
    }

    private CommandStarter.StartedCommand start(String... command) throws CheckpointException {
        List<String> words = new ArrayList<>(List.of(PROGRAMS.launch().toString(), "--"));
        words.addAll(List.of(command));
        return starter.start("tool", words, directory, output);
    }

    @Test
    void shouldTellThePidOfTheCommandAndGiveItsOutputAndStatus() throws Exception {
        CommandStarter.StartedCommand tool = start("sh", "-c", "echo $$ $0; exit 7", "$HOME");
        assertTrue(tool.client().waitFor(60, TimeUnit.SECONDS));
        assertEquals(7, tool.client().exitValue());
        assertEquals(tool.pid() + " $HOME\n", Files.readString(output));
        assertTrue(tool.pid() != tool.client().pid(), "another process than the one that requested it");
    }

    @Test
    void shouldNotTakeACommandForWellThatASignalHasEnded() throws Exception {
        CommandStarter.StartedCommand tool = start("sleep", "60");
        ProcessTable table = new ProcessTable();
        assertTrue(Polling.until(SOON, () -> table.name(table.of(tool.pid())).equals(Optional.of("sleep"))));
        assertTrue(table.leadsSession(table.of(tool.pid())), "a session of its own");
        assertTrue(ProcessHandle.of(tool.pid()).orElseThrow().destroy());
        assertTrue(tool.client().waitFor(60, TimeUnit.SECONDS));
        assertEquals(128 + 15, tool.client().exitValue());
    }

    @Test
    void shouldAskForAServiceThatLeavesItsProcessesAlone() throws Exception {
        start("true").client().waitFor();
        String words = Files.readString(directory.resolve("words"));
        assertTrue(words.contains("--property=KillMode=process"), words);
        assertTrue(words.contains("--unit=ppmr-tool-"), words);
    }

    /** The replacement reads the file as a shell does, which has the same escapes. */
    @Test
    void shouldHandTheEnvironmentOnByAFileThatIsGoneWhenTheCommandHasBegun() throws Exception {
        start("sh", "-c", "printf '%s.' \"$IPMI_PASSWORD\" \"$NOTIFY_SOCKET\"")
                .client()
                .waitFor();
        assertEquals("a $b \\ `c` \"d\"\ne..", Files.readString(output));
        String words = Files.readString(directory.resolve("words"));
        assertFalse(words.contains("`c`"), words);
        assertEquals("600:" + JobUser.ofService().uid() + "\n", Files.readString(directory.resolve("mode")));
        try (Stream<Path> left = Files.list(directory.resolve("run"))) {
            assertEquals(List.of(), left.toList());
        }
        assertEquals(
                "a $b \\ `c` \"d\"\ne",
                starter.run(List.of("sh", "-c", "printf %s \"$$IPMI_PASSWORD\"".replace("$$", "$")), SOON)
                        .output());
        try (Stream<Path> left = Files.list(directory.resolve("run"))) {
            assertEquals(List.of(), left.toList());
        }
    }

    @Test
    void shouldRemoveTheEnvironmentThatAKilledServiceHasLeft() throws Exception {
        Path left = Files.createDirectory(directory.resolve("run")).resolve("environment-999999999-1");
        Files.writeString(left, "A=b\n");
        Path others = Files.writeString(
                left.resolveSibling("environment-" + ProcessHandle.current().pid() + "-1"), "");
        start("true").client().waitFor();
        assertFalse(Files.exists(left));
        assertTrue(Files.exists(others), "a service that lives may need it");
    }

    @Test
    void shouldNotFollowALinkThatTheJobsUserHasLaid() throws Exception {
        Path victim = Files.writeString(directory.resolve("victim"), "precious");
        Files.createSymbolicLink(output, victim);
        CheckpointException e = assertThrows(CheckpointException.class, () -> start("echo", "overwritten"));
        assertTrue(e.getMessage().contains(output.toString()), e.getMessage());
        assertEquals("precious", Files.readString(victim));
    }

    @Test
    void shouldSayWhyWhenNoServiceIsStarted() throws Exception {
        starter = new TransientServices(
                Map.of(),
                script("echo 'Failed to connect to bus: No such file'; exit 1").toString(),
                directory.resolve("run"));
        CheckpointException e = assertThrows(CheckpointException.class, () -> start("true"));
        assertTrue(e.getMessage().contains("Failed to connect to bus: No such file. Remedy"), e.getMessage());
        starter = new TransientServices(Map.of(), script("exit 200").toString(), directory.resolve("run"));
        e = assertThrows(CheckpointException.class, () -> start("true"));
        assertTrue(e.getMessage().contains("exit status 200"), e.getMessage());
        starter = new TransientServices(Map.of(), directory + "/none", directory.resolve("run"));
        assertTrue(assertThrows(CheckpointException.class, () -> start("true"))
                .getMessage()
                .contains("install systemd"));
    }

    @Test
    void shouldTakeTheStarterThatTheEnvironmentNames() {
        assertTrue(CommandStarter.of(Map.of()) instanceof CommandStarter.Direct);
        assertTrue(CommandStarter.of(Map.of("PPMR_COMMANDS", "transient")) instanceof TransientServices);
        assertThrows(IllegalStateException.class, () -> CommandStarter.of(Map.of("PPMR_COMMANDS", "both")));
    }
}
