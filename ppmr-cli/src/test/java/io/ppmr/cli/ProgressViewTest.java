package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ProgressViewTest {
    private static final long GIB = 1L << 30;

    private final StringWriter results = new StringWriter();
    private final StringWriter notes = new StringWriter();

    private ProgressView view(ProgressView.Style style) {
        return new ProgressView(new TerminalWriter(results), new TerminalWriter(notes), style, true);
    }

    private static MigrationProgress at(SourceStep step, long arrived, double seconds) {
        return new MigrationProgress(step, 3 * GIB, arrived, arrived, 0, seconds, 4 * GIB, "");
    }

    @ParameterizedTest
    @ValueSource(ints = {20, 40, 80, 81, 119, 200})
    void shouldFillOneLineOfTheWidthWhenItIsRedrawn(int width) {
        ProgressView view = view(ProgressView.Style.NONE);
        for (SourceStep step : SourceStep.values()) {
            for (long arrived : new long[] {0, GIB, 3 * GIB, 9 * GIB}) {
                assertEquals(
                        width - 1,
                        view.drawnLine(at(step, arrived, 7), width - 1).length());
            }
        }
    }

    @Test
    void shouldShowABarWhenEightyColumnsAreThere() {
        ProgressView view = view(ProgressView.Style.NONE);
        view.show(at(SourceStep.CHECKPOINT, 0, 0));
        view.show(at(SourceStep.CHECKPOINT, GIB, 10));
        String line = view.drawnLine(at(SourceStep.CHECKPOINT, GIB, 10), 79);
        assertTrue(line.startsWith("checkpoint [##"), line);
        assertTrue(line.contains("] ") && line.contains(" 25% 1024.0 MiB of about 4096.0 MiB"), line);
        assertTrue(line.contains("102 MiB/s"), line);
    }

    @Test
    void shouldGiveNoEstimateWhenThereIsNoRate() {
        ProgressView view = view(ProgressView.Style.LINES);
        view.show(at(SourceStep.CHECKPOINT, 0, 0));
        view.show(at(SourceStep.CHECKPOINT, 1000, 2));
        view.show(at(SourceStep.CHECKPOINT, 2000, 4));
        assertFalse(notes.toString().contains(" left"), notes.toString());
        assertFalse(notes.toString().contains("0 MiB/s"), notes.toString());
    }

    @Test
    void shouldLeaveOutAStepThatDoesNothing() {
        ProgressView view = view(ProgressView.Style.LINES);
        view.show(at(SourceStep.RESTART, GIB, 1));
        view.show(at(SourceStep.RECONNECT, GIB, 2));
        view.show(at(SourceStep.DONE, GIB, 2.01));
        assertFalse(notes.toString().contains("reconnect"), notes.toString());
        view.show(at(SourceStep.RECONNECT, GIB, 3));
        view.show(at(SourceStep.RECONNECT, GIB, 3.5));
        assertTrue(notes.toString().contains("reconnect"), notes.toString());
    }

    @Test
    void shouldPrintResultsApartFromProgress() {
        ProgressView view = view(ProgressView.Style.LINES);
        view.show(at(SourceStep.CHECKPOINT, GIB, 1));
        view.line("a note");
        view.result("the result");
        assertEquals("the result\n", results.toString());
        assertTrue(notes.toString().contains("a note"), notes.toString());
    }

    @Test
    void shouldPrintResultsOnlyWhenQuiet() {
        ProgressView view =
                new ProgressView(new PrintWriter(results), new PrintWriter(notes), ProgressView.Style.NONE, false);
        view.show(at(SourceStep.CHECKPOINT, GIB, 1));
        view.line("a note");
        view.result("the result");
        assertEquals("", notes.toString());
        assertEquals("the result\n", results.toString());
    }
}
