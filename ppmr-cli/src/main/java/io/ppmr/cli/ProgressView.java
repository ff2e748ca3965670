package io.ppmr.cli;

import io.ppmr.daemon.service.MigrationText;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.os.PrintableText;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Shows a migration's progress: step, bytes, rate and time left; on a terminal one line that is redrawn, in a pipe
 * plain lines. For one thread.
 */
public final class ProgressView {
    private static final double SECONDS_BETWEEN_LINES = 1;
    private static final double SECONDS_OF_RATE = 0.5;

    private final PrintWriter out;
    private final boolean terminal;
    private MigrationProgress.SourceStep lastStep;
    private double lastSeconds;
    private int drawn;
    private double rateFromSeconds;
    private long rateFromBytes;
    private double bytesPerSecond;

    public ProgressView(PrintWriter out, boolean terminal) {
        this.out = out;
        this.terminal = terminal;
    }

    /**
     * Returns true if standard output is a terminal. {@code System.console()} says so on JDK 17 and no longer from 22
     * on, so this looks at what the descriptor leads to; see proc_pid_fd(5).
     */
    public static boolean onTerminal() {
        try {
            String leadsTo = Files.readSymbolicLink(Path.of("/proc/self/fd/1")).toString();
            return leadsTo.startsWith("/dev/pts/") || leadsTo.startsWith("/dev/tty");
        } catch (IOException e) {
            return false;
        }
    }

    /** Shows how far it is; in a pipe at each new step, and once a second. */
    public void show(MigrationProgress progress) {
        measure(progress);
        if (terminal) {
            String text = PrintableText.line(MigrationText.of(progress) + pace(progress));
            out.write('\r');
            out.print(text + " ".repeat(Math.max(0, drawn - text.length())));
            out.flush();
            drawn = text.length();
        } else if (progress.step() != lastStep || progress.seconds() - lastSeconds >= SECONDS_BETWEEN_LINES) {
            out.println(MigrationText.of(progress) + pace(progress));
            out.flush();
            lastSeconds = progress.seconds();
        }
        lastStep = progress.step();
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

    /** Rate and time left, as far as they are known. */
    private String pace(MigrationProgress progress) {
        boolean moving = progress.step() == MigrationProgress.SourceStep.CHECKPOINT
                || progress.step() == MigrationProgress.SourceStep.RESTART;
        if (!moving || bytesPerSecond <= 0) {
            return "";
        }
        String rate = "  " + MigrationText.rate(bytesPerSecond);
        // When all is written, what was written is all there is; before that the processes' memory says it about.
        long total = progress.step() == MigrationProgress.SourceStep.RESTART
                ? progress.sentBytes()
                : Math.max(progress.expectedBytes(), progress.sentBytes());
        long left = total - progress.arrivedBytes();
        return left <= 0 ? rate : rate + String.format(Locale.ROOT, "  about %.0f s left", left / bytesPerSecond);
    }

    /** Prints a line of its own. */
    public void line(String text) {
        if (drawn > 0) {
            out.println();
            drawn = 0;
        }
        out.println(text);
        out.flush();
    }

    /** Prints how it ended. */
    public void report(MigrationReport report) {
        line(MigrationText.of(report));
        if (report.copy() != null && report.copy().kept()) {
            line("  restart from it: ppmr restart " + report.copy().directory());
        }
        for (MigrationReport.MovedRank rank : report.ranks()) {
            line("  rank " + rank.rank() + " runs there as PID "
                    + String.join(
                            ", ", rank.pids().stream().map(String::valueOf).toList()));
        }
    }
}
