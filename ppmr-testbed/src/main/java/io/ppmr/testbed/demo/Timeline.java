package io.ppmr.testbed.demo;

import io.ppmr.daemon.service.MigrationText;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** A chart in text of the bytes written and read over time. It is for one thread. */
final class Timeline {
    private static final int WIDTH = 30;
    private static final int MAX_ROWS = 16;

    private record Sample(double seconds, long writtenBytes, long readBytes) {}

    private final List<Sample> samples = new ArrayList<>();

    void add(MigrationProgress progress) {
        samples.add(new Sample(progress.seconds(), progress.sentBytes(), progress.readBytes()));
    }

    void print(PrintWriter out, MigrationReport report) {
        if (report.images().bytes() == 0) {
            return;
        }
        out.printf(
                Locale.ROOT,
                "%8s  %-" + WIDTH + "s %12s   %-" + WIDTH + "s %12s%n",
                "seconds",
                "written",
                "",
                "read",
                "");
        double last = report.times().lastByteWrittenSeconds();
        boolean marked = false;
        for (Sample sample : thinned()) {
            if (!marked && sample.seconds() >= last) {
                Sample atLast = new Sample(
                        last, report.images().bytes(), report.images().bytesReadWhenLastWritten());
                row(out, atLast, report.images().bytes(), "  <- last byte written");
                marked = true;
            }
            // Samples of the read bytes arrive slightly late. The mark is exact, so older samples after it are dropped.
            if (!marked || sample.readBytes() > report.images().bytesReadWhenLastWritten()) {
                row(out, sample, report.images().bytes(), "");
            }
            if (marked && sample.readBytes() == report.images().bytes()) {
                break;
            }
        }
        out.printf(
                Locale.ROOT,
                "When the last byte was written, after %.2f s, %s of %s had been read; %s were not: the pool has %s.%n",
                last,
                MigrationText.mib(report.images().bytesReadWhenLastWritten()),
                MigrationText.mib(report.images().bytes()),
                MigrationText.mib(report.images().bytes() - report.images().bytesReadWhenLastWritten()),
                MigrationText.mib(report.memory().poolBytes()));
    }

    private List<Sample> thinned() {
        List<Sample> chosen = new ArrayList<>();
        int step = Math.max(1, (samples.size() + MAX_ROWS - 1) / MAX_ROWS);
        for (int i = 0; i < samples.size(); i += step) {
            chosen.add(samples.get(i));
        }
        return chosen;
    }

    private static void row(PrintWriter out, Sample sample, long whole, String note) {
        out.printf(
                Locale.ROOT,
                "%8.2f  %s %12s   %s %12s%s%n",
                sample.seconds(),
                bar(sample.writtenBytes(), whole),
                MigrationText.mib(sample.writtenBytes()),
                bar(sample.readBytes(), whole),
                MigrationText.mib(sample.readBytes()),
                note);
    }

    private static String bar(long part, long whole) {
        int length = (int) Math.min(WIDTH, part * WIDTH / whole);
        return "#".repeat(length) + ".".repeat(WIDTH - length);
    }
}
