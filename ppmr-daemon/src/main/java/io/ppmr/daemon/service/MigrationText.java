package io.ppmr.daemon.service;

import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.target.Arrival;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/** A migration in one line for people: for the log, a service manager and the commands. */
public final class MigrationText {
    private static final double MIB = 1024.0 * 1024.0;
    private static final int SHOWN_OF_ID = 8;
    private static final String REMEDY = "Remedy: ";
    private static final Pattern PARTS_OF_A_REASON = Pattern.compile("; (?=its output: |its log /)|\\. (?=Remedy: )");

    private MigrationText() {}

    /** Describes how a migration ended, in one line. */
    public static String of(MigrationReport report) {
        return outcome(report)
                + (report.reason().isEmpty() ? "" : "; " + report.reason())
                + (report.copy() == null ? "" : "; " + report.copy().sentence());
    }

    /**
     * Describes how a migration ended, in several lines: the outcome, the cause, the output of a tool, and the
     * remedy.
     */
    public static List<String> lines(MigrationReport report) {
        List<String> lines = new ArrayList<>(List.of(outcome(report)));
        for (String part : PARTS_OF_A_REASON.split(report.reason(), -1)) {
            if (!part.isBlank()) {
                lines.add("  " + (part.startsWith(REMEDY) ? "-> " + part.substring(REMEDY.length()) : part));
            }
        }
        if (report.copy() != null) {
            lines.add("  " + report.copy().sentence());
        }
        return lines;
    }

    private static String outcome(MigrationReport report) {
        return String.format(
                Locale.ROOT,
                "%s: %s in %.2f s (%s), %s staged%s",
                word(report.outcome()),
                mib(report.images().bytes()),
                report.times().seconds(),
                rate(
                        report.times().seconds() > 0
                                ? report.images().bytes() / report.times().seconds()
                                : 0),
                mib(report.images().stagedBytes()),
                report.pages().isEmpty() ? "" : "; pages " + report.pages());
    }

    /** Describes the progress of a migration. */
    public static String of(MigrationProgress progress) {
        return String.format(
                Locale.ROOT,
                "%6.2f s  %-10s  written %10s  arrived %10s  read %10s  staged %s",
                progress.seconds(),
                word(progress.step()),
                mib(progress.sentBytes()),
                mib(progress.arrivedBytes()),
                mib(progress.readBytes()),
                mib(progress.stagedBytes()));
    }

    /** Describes a migration that arrives at a target, with its current rate. */
    public static String of(Arrival arrival, double bytesPerSecond) {
        if (arrival.source().isEmpty()) {
            return "migration " + shortened(arrival.id()) + ", recovered: " + word(arrival.step());
        }
        return String.format(
                Locale.ROOT,
                "migration %s of job %s from %s: %6.2f s  %-8s  arrived %s of about %s  read %s  staged %s  %s",
                shortened(arrival.id()),
                arrival.job(),
                arrival.source(),
                arrival.seconds(),
                word(arrival.step()),
                mib(arrival.arrivedBytes()),
                mib(arrival.expectedBytes()),
                mib(arrival.readBytes()),
                mib(arrival.stagedBytes()),
                rate(bytesPerSecond));
    }

    /** Returns the first characters of a migration's name. */
    public static String shortened(String id) {
        return id.substring(0, Math.min(SHOWN_OF_ID, id.length()));
    }

    /** Formats bytes in MiB. */
    public static String mib(long bytes) {
        return String.format(Locale.ROOT, "%.1f MiB", bytes / MIB);
    }

    /** Formats bytes a second in MiB a second. */
    public static String rate(double bytesPerSecond) {
        return String.format(Locale.ROOT, "%.0f MiB/s", bytesPerSecond / MIB);
    }

    /** A constant in small letters, its words apart. */
    public static String word(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT).replace('_', ' ');
    }
}
