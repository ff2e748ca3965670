package io.ppmr.cli;

import io.ppmr.daemon.service.MigrationText;
import io.ppmr.linux.PrintableText;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.migration.source.MigrationReport;
import java.io.PrintWriter;
import java.util.List;
import java.util.Locale;

/**
 * Shows a migration's progress: step, bytes and rate. On a terminal it redraws one line that fits the width. In a pipe
 * it prints plain lines. Results go to one writer, progress and notes to another. It is for one thread.
 */
public final class ProgressView {
    private static final double SECONDS_BETWEEN_LINES = 1;
    private static final double SECONDS_OF_RATE = 0.5;
    /** A hook's step is shown if it lasts that long. A job without that hook passes the step at once. */
    private static final double SECONDS_OF_HOOK = 0.2;
    /** An estimate needs a rate, and is inaccurate beyond an hour. */
    private static final double LEAST_BYTES_PER_SECOND = 1 << 20;

    private static final double MOST_SECONDS_LEFT = 3600;
    private static final int MOST_BAR = 30;
    private static final int LEAST_BAR = 8;
    private static final int PERCENT = 100;

    /** The kinds of display. */
    enum Style {
        NONE,
        LINES,
        REDRAWN
    }

    private final PrintWriter results;
    private final PrintWriter notes;
    private final Style style;
    private final boolean noted;
    private final Terminal terminal;
    private SourceStep lastStep;
    private SourceStep shownStep;
    private double lastSeconds;
    private double stepSeconds;
    private boolean drawn;
    private double rateFromSeconds;
    private long rateFromBytes;
    private double bytesPerSecond;

    /** Creates a view whose output goes to one writer. */
    public ProgressView(PrintWriter out, boolean terminal) {
        this(out, out, terminal ? Style.REDRAWN : Style.LINES, true);
    }

    /**
     * @param results receives the result of the migration
     * @param notes receives all other output
     * @param noted whether notes are shown
     */
    ProgressView(PrintWriter results, PrintWriter notes, Style style, boolean noted) {
        this.results = results;
        this.notes = notes;
        this.style = style;
        this.noted = noted;
        this.terminal = style == Style.REDRAWN ? new Terminal() : null;
    }

    /** Returns true if standard output is a terminal. */
    public static boolean onTerminal() {
        return Terminal.isTerminal(Terminal.OUT);
    }

    /** Shows the state of a migration. A pipe gets a line at each new step, and once a second. */
    public void show(MigrationProgress progress) {
        measure(progress);
        if (progress.step() != lastStep) {
            stepSeconds = progress.seconds();
            lastStep = progress.step();
        }
        if (isHook(progress.step()) && progress.seconds() - stepSeconds < SECONDS_OF_HOOK) {
            return;
        }
        if (style == Style.REDRAWN) {
            redraw(drawnLine(progress, terminal.width() - 1));
        } else if (style == Style.LINES
                && (progress.step() != shownStep || progress.seconds() - lastSeconds >= SECONDS_BETWEEN_LINES)) {
            notes.println(MigrationText.of(progress) + pace(progress));
            notes.flush();
            lastSeconds = progress.seconds();
            shownStep = progress.step();
        }
    }

    private static boolean isHook(SourceStep step) {
        return step == SourceStep.SUSPEND || step == SourceStep.RECONNECT;
    }

    /** Overwrites the previous line. Spaces fill the rest of it, so that no control sequence is needed. */
    private void redraw(String text) {
        notes.write('\r');
        notes.print(text);
        notes.flush();
        drawn = true;
    }

    /** One line of exactly that width: step, bar, bytes, rate. */
    String drawnLine(MigrationProgress progress, int width) {
        long total = total(progress);
        String step = String.format(Locale.ROOT, "%-10s ", MigrationText.word(progress.step()));
        String bytes = total > 0
                ? String.format(
                        Locale.ROOT,
                        " %3d%% %s of %s%s",
                        percent(progress.arrivedBytes(), total),
                        MigrationText.mib(progress.arrivedBytes()),
                        isTotalKnown(progress) ? "" : "about ",
                        MigrationText.mib(total))
                : " " + MigrationText.mib(progress.arrivedBytes());
        String line = step + bytes + pace(progress);
        // If the width does not suffice for a bar, the estimate is dropped first, and then the rate.
        for (String right : List.of(bytes + pace(progress), bytes + rate(progress), bytes)) {
            int bar = Math.min(MOST_BAR, width - step.length() - right.length() - 2);
            if (total > 0 && bar >= LEAST_BAR) {
                line = step + bar(progress.arrivedBytes(), total, bar) + right;
                break;
            }
        }
        line = PrintableText.line(line);
        return line.length() >= width ? line.substring(0, width) : line + " ".repeat(width - line.length());
    }

    private static String bar(long done, long total, int width) {
        int filled = (int) (width * Math.min(1.0, (double) done / total));
        return "[" + "#".repeat(filled) + "-".repeat(width - filled) + "]";
    }

    private static int percent(long done, long total) {
        return (int) Math.min(PERCENT, PERCENT * done / total);
    }

    private void measure(MigrationProgress progress) {
        double passed = progress.seconds() - rateFromSeconds;
        if (passed < 0) {
            // Another migration.
            rateFromSeconds = 0;
            rateFromBytes = 0;
            bytesPerSecond = 0;
        } else if (passed >= SECONDS_OF_RATE) {
            bytesPerSecond = (progress.arrivedBytes() - rateFromBytes) / passed;
            rateFromSeconds = progress.seconds();
            rateFromBytes = progress.arrivedBytes();
        }
    }

    /**
     * The image is complete from the restart on. Before that, the memory of the processes is an estimate of its size.
     */
    private static boolean isTotalKnown(MigrationProgress progress) {
        return progress.step().compareTo(SourceStep.RESTART) >= 0;
    }

    private static long total(MigrationProgress progress) {
        return isTotalKnown(progress) ? progress.sentBytes() : Math.max(progress.expectedBytes(), progress.sentBytes());
    }

    /** Returns rate and remaining time, as far as they can be calculated. */
    private String pace(MigrationProgress progress) {
        String rate = rate(progress);
        double left = (total(progress) - progress.arrivedBytes()) / bytesPerSecond;
        return rate.isEmpty() || left < 1 || left > MOST_SECONDS_LEFT
                ? rate
                : rate + String.format(Locale.ROOT, "  about %.0f s left", left);
    }

    private String rate(MigrationProgress progress) {
        boolean moving = progress.step() == SourceStep.CHECKPOINT || progress.step() == SourceStep.RESTART;
        return moving && bytesPerSecond >= LEAST_BYTES_PER_SECOND ? "  " + MigrationText.rate(bytesPerSecond) : "";
    }

    /** Prints a note on a line of its own. */
    public void line(String text) {
        endLine();
        if (noted) {
            notes.println(text);
            notes.flush();
        }
    }

    /** Prints a result on a line of its own. */
    void result(String text) {
        endLine();
        results.println(text);
        results.flush();
    }

    /** Leaves the line that is redrawn as it is. */
    void endLine() {
        if (drawn) {
            notes.println();
            notes.flush();
            drawn = false;
        }
    }

    /** Prints how it ended. */
    public void report(MigrationReport report) {
        MigrationText.lines(report).forEach(this::result);
        if (report.copy() != null && report.copy().kept()) {
            result("  restart from it: ppmr restart " + report.copy().directory());
        }
        for (MigrationReport.MovedRank rank : report.ranks()) {
            result("  rank " + rank.rank() + " runs there as PID "
                    + String.join(
                            ", ", rank.pids().stream().map(String::valueOf).toList()));
        }
    }
}
