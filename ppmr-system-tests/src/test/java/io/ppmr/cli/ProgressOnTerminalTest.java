package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** On a real terminal, made by script(1), a migration's progress stays in one line of its width. */
class ProgressOnTerminalTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final long MIB = 1L << 20;

    /** The program on the terminal: a migration of 1500 MiB at 150 MiB a second, drawn each half second of it. */
    public static void main(String[] arguments) {
        TerminalWriter err = new TerminalWriter(new OutputStreamWriter(System.err, StandardCharsets.UTF_8));
        boolean terminal = Terminal.isTerminal(Terminal.ERR);
        ProgressView view =
                new ProgressView(err, err, terminal ? ProgressView.Style.REDRAWN : ProgressView.Style.LINES, true);
        for (int half = 0; half <= 20; half++) {
            SourceStep step = half < 2 ? SourceStep.CONNECT : half < 18 ? SourceStep.CHECKPOINT : SourceStep.RESTART;
            long arrived = 75 * MIB * half;
            view.show(new MigrationProgress(step, arrived, arrived, arrived, 0, half / 2.0, 1500 * MIB, ""));
        }
        view.result("committed");
    }

    @ParameterizedTest
    @ValueSource(ints = {40, 80, 200})
    void shouldStayInOneLineWhenTheTerminalHasThatWidth(int columns) throws Exception {
        List<String> java = new ArrayList<>(
                List.of(Path.of(System.getProperty("java.home"), "bin/java").toString()));
        java.addAll(List.of("-cp", System.getProperty("java.class.path"), ProgressOnTerminalTest.class.getName()));
        String line = "stty cols " + columns + "; " + String.join(" ", java);
        Command.CommandResult result =
                Command.of(List.of("script", "-qec", line, "/dev/null")).run(LIMIT);
        assertEquals(0, result.exitCode(), result.output());
        // String.lines() would end a line at each carriage return.
        List<String> lines =
                List.of(result.output().replace("\r\n", "\n").strip().split("\n", -1));
        assertEquals(2, lines.size(), result.output());
        assertEquals("committed", lines.get(1));
        String[] drawn = lines.get(0).split("\r", -1);
        assertTrue(drawn.length > 15, result.output());
        for (String one : drawn) {
            assertTrue(one.isEmpty() || one.length() == columns - 1, one.length() + ": " + one);
        }
        String last = drawn[drawn.length - 1];
        assertTrue(last.startsWith("restart") && last.contains("100%"), last);
        assertTrue(columns == 40 || last.contains("[####"), last);
    }
}
