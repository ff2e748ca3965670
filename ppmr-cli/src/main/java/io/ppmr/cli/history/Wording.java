package io.ppmr.cli.history;

import io.ppmr.transaction.NamedProcess;
import io.ppmr.transaction.TransactionJournal.Entry;
import io.ppmr.transaction.TransactionRecord;
import java.io.PrintWriter;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.Locale;
import java.util.stream.Collectors;

/** A migration's history as text. */
final class Wording {
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss.SSS", Locale.ROOT).withZone(ZoneId.systemDefault());

    private Wording() {}

    static MigrationHistory.Event event(Entry entry) {
        TransactionRecord record = entry.record();
        return new MigrationHistory.Event(
                entry.atEpochMs(), record.attempt(), record.getClass().getSimpleName(), detail(record));
    }

    private static String detail(TransactionRecord record) {
        if (record instanceof TransactionRecord.Begun begun) {
            return String.join(", ", begun.participants());
        }
        if (record instanceof TransactionRecord.Sealed sealed) {
            return sealed.participant();
        }
        if (record instanceof TransactionRecord.RollBackDecided back) {
            return back.reason() + (back.byOperator() ? " (an operator's decision)" : "");
        }
        if (record instanceof TransactionRecord.Broken broken) {
            return broken.reason();
        }
        if (record instanceof TransactionRecord.Prepared prepared) {
            return "as " + prepared.self() + " of " + String.join(", ", prepared.participants()) + ", for "
                    + prepared.source();
        }
        if (record instanceof TransactionRecord.TakenOver taken) {
            return "towards " + taken.aim();
        }
        if (record instanceof TransactionRecord.RolledBackHere back) {
            return back.reason();
        }
        if (record instanceof TransactionRecord.Placement placement) {
            return "job " + placement.job() + ": " + String.join(", ", placement.places());
        }
        if (record instanceof TransactionRecord.CopyEnded copy) {
            return copy.sentence();
        }
        if (record instanceof TransactionRecord.Stopped stopped) {
            return "stopped by the job itself: "
                    + stopped.ranks().stream()
                            .map(rank -> "rank " + rank.rank() + " PIDs "
                                    + rank.processes().stream()
                                            .map(NamedProcess::pid)
                                            .toList())
                            .collect(Collectors.joining(", "));
        }
        return record instanceof TransactionRecord.Done done ? done.outcome() + " " + done.reason() : "";
    }

    static String time(long epochMs) {
        return TIME.format(Instant.ofEpochMilli(epochMs));
    }

    static String line(MigrationHistory one) {
        return String.format(
                Locale.ROOT,
                "%-23s  %-20s %-6s %-11s %-12s %s%s",
                time(one.startedEpochMs()),
                one.id(),
                one.side(),
                one.outcome(),
                one.job().isEmpty() ? "-" : one.job(),
                one.endedEpochMs() == 0 ? "" : seconds(one.endedEpochMs() - one.startedEpochMs()) + " s ",
                one.reason());
    }

    private static String seconds(long ms) {
        return String.format(Locale.ROOT, "%.3f", ms / 1000.0);
    }

    static void whole(MigrationHistory one, PrintWriter out) {
        out.println("migration  " + one.id() + " (" + one.side() + "'s journal)");
        out.println("asked by   " + (one.who().isEmpty() ? "-" : one.who())
                + (one.job().isEmpty() ? "" : ", job " + one.job())
                + (one.what().isEmpty() ? "" : ", " + one.what()));
        out.println("from, to   " + time(one.startedEpochMs()) + ", "
                + (one.endedEpochMs() == 0 ? "not over" : time(one.endedEpochMs())));
        out.println("outcome    " + one.outcome() + " after " + one.attempts() + " attempt"
                + (one.attempts() == 1 ? "" : "s") + (one.reason().isEmpty() ? "" : ": " + one.reason()));
        for (MigrationHistory.Placed placed : one.plan()) {
            out.println("rank " + placed.rank() + " -> " + placed.target());
        }
        for (MigrationHistory.Step step : one.steps()) {
            out.println(String.format(
                    Locale.ROOT,
                    "step       %d %-12s %-8s %-22s +%s s, %s s, %d bytes, %s s beside other steps",
                    step.attempt(),
                    step.name(),
                    step.rank() < 0 ? "all" : "rank " + step.rank(),
                    step.peer(),
                    seconds(step.startEpochMs() - one.startedEpochMs()),
                    seconds(step.durationMs()),
                    step.bytes(),
                    seconds(step.overlapMs())));
        }
        for (MigrationHistory.Event event : one.events()) {
            out.println(String.format(
                            Locale.ROOT,
                            "%-23s  %d %-16s %s",
                            time(event.atEpochMs()),
                            event.attempt(),
                            event.name(),
                            event.detail())
                    .stripTrailing());
        }
    }
}
