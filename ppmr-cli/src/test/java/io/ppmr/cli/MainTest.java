package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.ProcessSignals;
import io.ppmr.migration.source.MigrationReport.Outcome;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class MainTest {
    @TempDir
    private Path folder;

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    private int run(String... arguments) {
        return Main.execute(arguments, new PrintWriter(out, true), new PrintWriter(err, true));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "no-such-command",
                "source",
                "source --config",
                "migrate",
                "config",
                "config show",
                "config example",
                "config example both",
                "migrate --patience soon",
                "demo --size 5",
                "migrate --socket a --config b"
            })
    void shouldEndWithUsageWhenCommandLineIsWrong(String line) {
        assertEquals(
                2,
                run(Arrays.stream(line.split(" ", -1))
                        .filter(word -> !word.isEmpty())
                        .toArray(String[]::new)));
        assertTrue(err.toString().startsWith("ppmr"), err.toString());
        assertFalse(err.toString().contains("\tat "), err.toString());
    }

    @Test
    void shouldNameAllMistakesWithoutTraceWhenConfigurationIsWrong() throws Exception {
        Path file = Files.writeString(folder.resolve("target.toml"), "listen = 7\nmuont = \"x\"\n");
        assertEquals(2, run("target", "--config", file.toString()));
        assertTrue(err.toString().contains(file + ":1: listen: 7 is not valid"), err.toString());
        assertTrue(
                err.toString().contains(file + ":2: muont: there is no such key; did you mean mount?"), err.toString());
        assertFalse(err.toString().contains("\tat "), err.toString());
    }

    @Test
    void shouldEndWithFailureInOneLineWhenNoServiceAnswers() {
        assertEquals(1, run("status", "--socket", folder.resolve("none").toString()));
        assertTrue(err.toString().startsWith("ppmr: no service answers at "), err.toString());
        assertEquals(1, err.toString().lines().count());
    }

    @Test
    void shouldMakeKeyOnceWhenAsked() throws Exception {
        Path key = folder.resolve("key");
        assertEquals(0, run("keygen", key.toString()));
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(key)));
        String made = Files.readString(key);
        assertEquals(64, made.strip().length());
        assertEquals(1, run("keygen", key.toString()));
        assertEquals(made, Files.readString(key));
    }

    @Test
    void shouldCheckExampleWhenAsked() {
        Path example = Path.of(System.getProperty("ppmr.home"), "conf", "source.toml");
        assertEquals(0, run("config", "check", "--elsewhere", example.toString()), err.toString());
        assertTrue(out.toString().contains("good configuration of a source"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"source", "target"})
    void shouldPrintAGoodExampleWhenAsked(String role) throws Exception {
        assertEquals(0, run("config", "example", role), err.toString());
        Path example = Files.writeString(folder.resolve("example.toml"), out.toString());
        assertEquals(0, run("config", "check", "--elsewhere", example.toString()), err.toString());
        assertTrue(out.toString().contains("good configuration of a " + role));
    }

    @Test
    void shouldListCheckpointersWhenAsked() {
        int exitCode = run("checkpointers");
        assertTrue(exitCode <= 1, err.toString());
        assertTrue(out.toString().contains("blcr") && out.toString().contains("criu"), out.toString());
    }

    @ParameterizedTest
    @CsvSource({"COMMITTED,0", "ROLLED_BACK,3", "REFUSED,4", "IN_DOUBT,5"})
    void shouldTellOutcomesApartWhenMigrationEnds(Outcome outcome, int code) {
        assertEquals(code, ExitCode.of(outcome).number());
    }

    @ParameterizedTest
    @EnumSource(ExitCode.class)
    void shouldDocumentEveryExitCodeWhenHelpIsShown(ExitCode code) {
        assertEquals(0, run("--help"));
        assertTrue(out.toString().contains("  " + code.number() + "   " + code.meaning()), out.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "12", "0", "65", "USR1", "-1"})
    void shouldRefuseTriggerWhenTheJvmMayUseTheSignal(String number) {
        CommandFailure failure = assertThrows(
                CommandFailure.class, () -> ProcessSignals.requireFreeTrigger(Map.of("_JAVA_SR_SIGNUM", number)));
        assertEquals(ExitCode.USAGE, failure.exitCode());
        assertTrue(failure.getMessage().contains("_JAVA_SR_SIGNUM"));
    }

    @Test
    void shouldAllowTriggerWhenTheJvmUsesAnotherSignal() throws CommandFailure {
        ProcessSignals.requireFreeTrigger(Map.of("_JAVA_SR_SIGNUM", "40"));
        assertThrows(CommandFailure.class, () -> ProcessSignals.requireFreeTrigger(Map.of()));
    }
}
