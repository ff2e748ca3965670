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
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Commands in services of their own, with a stand-in for systemd-run that runs what comes after "--". That systemd does
 * so, and what survives then, is shown in a guest that systemd has booted.
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
        // As the manager does: variables are filled in, and "$$" is a dollar sign.
        starter = new TransientServices(
                Map.of("PATH", "/bin:/usr/bin", "NOTIFY_SOCKET", "/none", "COLOUR", "red"),
                script("""
                        words=
                        while [ "$1" != -- ]; do words="$words $1"; shift; done
                        echo "$words" >%1$s/words
                        shift
                        for word; do set -- "$@" "$(echo "$word" | sed 's/\\$\\$/$/g')"; shift; done
                        exec "$@"
                        """.formatted(directory)).toString());
    }

    private Path script(String text) throws Exception {
        Path script = directory.resolve("systemd-run");
        Files.writeString(script, "#!/bin/sh\n" + text);
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
        return script;
    }

    private CommandStarter.Started start(String... command) throws CheckpointException {
        List<String> words = new ArrayList<>(List.of(PROGRAMS.launch().toString(), "--"));
        words.addAll(List.of(command));
        return starter.start("tool", words, directory, output);
    }

    @Test
    void shouldTellThePidOfTheCommandAndGiveItsOutputAndStatus() throws Exception {
        CommandStarter.Started tool = start("sh", "-c", "echo $$ $0; exit 7", "$HOME");
        assertTrue(tool.client().waitFor(60, TimeUnit.SECONDS));
        assertEquals(7, tool.client().exitValue());
        assertEquals(tool.pid() + " $HOME\n", Files.readString(output));
        assertTrue(tool.pid() != tool.client().pid(), "another process than the one that asked for it");
    }

    @Test
    void shouldNotTakeACommandForWellThatASignalHasEnded() throws Exception {
        CommandStarter.Started tool = start("sleep", "60");
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
        assertTrue(words.contains("--setenv=COLOUR=red"), words);
        assertFalse(words.contains("NOTIFY_SOCKET"), words);
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
                script("echo 'Failed to connect to bus: No such file'; exit 1").toString());
        CheckpointException e = assertThrows(CheckpointException.class, () -> start("true"));
        assertTrue(e.getMessage().contains("Failed to connect to bus: No such file. Remedy"), e.getMessage());
        starter = new TransientServices(Map.of(), script("exit 200").toString());
        e = assertThrows(CheckpointException.class, () -> start("true"));
        assertTrue(e.getMessage().contains("exit status 200"), e.getMessage());
        starter = new TransientServices(Map.of(), directory + "/none");
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
