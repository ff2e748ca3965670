package io.ppmr.daemon.history;

import com.fasterxml.jackson.annotation.JsonUnwrapped;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionJournal.JournalEntry;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * One migration as recorded in a journal, the source's or a target's. Times are milliseconds since 1970.
 *
 * @param side the side of the journal, source or target
 * @param request what was requested, and by which user
 * @param attempts how many attempts there were
 * @param outcome COMMITTED, ROLLED_BACK, REFUSED if nothing of the job was changed, or OPEN while it is not over
 * @param endedEpochMs 0 while it is not over
 * @param plan which target took which rank in the last attempt
 * @param steps what took which time, in the order of their beginning
 * @param events the records of the protocol, in order
 */
public record MigrationHistory(
        String id,
        String side,
        @JsonUnwrapped MigrationRequest request,
        long startedEpochMs,
        long endedEpochMs,
        int attempts,
        String outcome,
        String reason,
        List<Placed> plan,
        List<Step> steps,
        List<Event> events) {
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss.SSS", Locale.ROOT).withZone(ZoneId.systemDefault());

    /** The records of the protocol, in words. */
    private static final Map<String, String> EVENT_WORDS = Map.ofEntries(
            Map.entry("Secret", "secret made"),
            Map.entry("PeerNode", "peer node"),
            Map.entry("Begun", "attempt began"),
            Map.entry("PagesChosen", "memory"),
            Map.entry("NothingChanged", "nothing was changed"),
            Map.entry("JobPlacement", "placement"),
            Map.entry("JobStopped", "stopped before"),
            Map.entry("Frozen", "cgroups frozen"),
            Map.entry("Sealed", "image complete"),
            Map.entry("PreparedHere", "ready to commit"),
            Map.entry("CommitDecided", "commit decided"),
            Map.entry("RollBackDecided", "rollback decided"),
            Map.entry("LostSource", "source lost"),
            Map.entry("Promised", "promised to hold"),
            Map.entry("Fencing", "fencing"),
            Map.entry("TakenOver", "decided here"),
            Map.entry("CommittedHere", "committed here"),
            Map.entry("RolledBackHere", "rolled back here"),
            Map.entry("Broken", "attempt failed"),
            Map.entry("CopyEnded", "checkpoint kept"),
            Map.entry("Done", "over"));

    /** Maximum number of migrations whose records are held at once. */
    private static final int GROUP = 10_000;

    public MigrationHistory {
        plan = List.copyOf(plan);
        steps = List.copyOf(steps);
        events = List.copyOf(events);
    }

    /**
     * The request for a migration.
     *
     * @param who the user, or empty if the journal does not have it
     * @param job the job, or empty if the journal does not have it
     * @param what the requested subset of the job, or empty for all of it
     */
    public record MigrationRequest(String who, String job, String what) {}

    /** A rank and the target that took it. */
    public record Placed(int rank, String target) {}

    /**
     * A step.
     *
     * @param rank the rank, or -1 for all ranks
     * @param overlapMs for how long steps of other names ran beside it
     */
    public record Step(
            int attempt,
            String name,
            int rank,
            String peer,
            long startEpochMs,
            long durationMs,
            long bytes,
            long overlapMs) {}

    /** A record of the protocol. */
    public record Event(long atEpochMs, int attempt, String name, String detail) {
        /** Returns the name for people. */
        public String words() {
            return EVENT_WORDS.getOrDefault(name, name);
        }
    }

    /** Receives migrations, one after the other. */
    @FunctionalInterface
    public interface Reader {
        void take(MigrationHistory one) throws IOException;
    }

    /**
     * Passes all migrations of a journal, the oldest first. A journal can have hundreds of thousands of migrations. It
     * is read once for their names, and again for each group of them.
     *
     * @throws IOException it cannot be read, or is damaged
     */
    public static void each(Path journal, Reader reader) throws IOException {
        Set<String> names = new LinkedHashSet<>();
        MappedJournal.forEach(journal, entry -> names.add(entry.record().migrationId()));
        List<String> all = List.copyOf(names);
        for (int from = 0; from < all.size(); from += GROUP) {
            List<String> group = all.subList(from, Math.min(all.size(), from + GROUP));
            for (MigrationHistory one : of(journal, group)) {
                reader.take(one);
            }
        }
    }

    /** Finds one migration of a journal by its whole name. */
    public static Optional<MigrationHistory> find(Path journal, String id) throws IOException {
        return of(journal, List.of(id)).stream().findFirst();
    }

    /**
     * Returns the whole names that begin with some characters. Returns only the name itself if one is equal to them.
     */
    public static List<String> namesBeginningWith(Path journal, String prefix) throws IOException {
        Set<String> names = new LinkedHashSet<>();
        MappedJournal.forEach(journal, entry -> {
            String name = entry.record().migrationId();
            if (name.startsWith(prefix)) {
                names.add(name);
            }
        });
        return names.contains(prefix) ? List.of(prefix) : List.copyOf(names);
    }

    /**
     * Returns the whole names of the migrations of one user's jobs that begin with some characters, the oldest first.
     * The job's full name has the user at a source, and the record of its placement at a target.
     */
    static List<String> namesOf(Path journal, int uid, String prefix) throws IOException {
        String jobs = Integer.toUnsignedString(uid) + "/";
        Set<String> names = new LinkedHashSet<>();
        MappedJournal.forEach(journal, entry -> {
            TransactionRecord record = entry.record();
            boolean isOwn = record instanceof TransactionRecord.Requested requested
                    ? requested.job().startsWith(jobs)
                    : record instanceof TransactionRecord.JobPlacement placement && placement.uid() == uid;
            if (isOwn && record.migrationId().startsWith(prefix)) {
                names.add(record.migrationId());
            }
        });
        return names.contains(prefix) ? List.of(prefix) : List.copyOf(names);
    }

    /** Finds one migration of a journal by its name or the first characters. Fails by name if there is not one. */
    public static MigrationHistory named(Path journal, String prefix) throws IOException, CommandFailure {
        List<String> names = namesBeginningWith(journal, prefix);
        if (names.isEmpty()) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    "the journal " + journal + " has no migration " + prefix + ". ppmr history lists them");
        }
        if (names.size() > 1) {
            throw new CommandFailure(
                    ExitCode.USAGE,
                    "several migrations begin with " + prefix + ": " + String.join(", ", names)
                            + ". Remedy: give more characters");
        }
        return find(journal, names.get(0)).orElseThrow();
    }

    private static List<MigrationHistory> of(Path journal, List<String> ids) throws IOException {
        Map<String, Set<JournalEntry>> byId = new LinkedHashMap<>();
        ids.forEach(id -> byId.put(id, new LinkedHashSet<>()));
        MappedJournal.forEach(journal, entry -> {
            Set<JournalEntry> known = byId.get(entry.record().migrationId());
            if (known != null) {
                known.add(entry);
            }
        });
        return byId.entrySet().stream()
                .filter(one -> !one.getValue().isEmpty())
                .map(one -> of(one.getKey(), one.getValue()))
                .toList();
    }

    private static MigrationHistory of(String id, Collection<JournalEntry> entries) {
        TransactionRecord.Requested asked = new TransactionRecord.Requested(id, 0, "", "", "");
        TransactionRecord.Done done = null;
        long endedEpochMs = 0;
        int attempts = 0;
        boolean nothingChanged = false;
        String side = "target";
        List<Placed> plan = new ArrayList<>();
        List<TransactionRecord.StepTimed> timed = new ArrayList<>();
        List<Event> events = new ArrayList<>();
        for (JournalEntry entry : entries) {
            TransactionRecord record = entry.record();
            attempts = Math.max(attempts, record.attempt());
            nothingChanged |= record instanceof TransactionRecord.NothingChanged;
            if (record instanceof TransactionRecord.Requested found) {
                asked = found;
            } else if (record instanceof TransactionRecord.StepTimed step) {
                timed.add(step);
            } else {
                events.add(event(entry));
            }
            if (record instanceof TransactionRecord.Begun begun) {
                side = "source";
                place(plan, begun.originals(), true);
            } else if (record instanceof TransactionRecord.PreparedHere prepared) {
                place(plan, prepared.copies(), false);
            }
            if (record instanceof TransactionRecord.Done over) {
                done = over;
                endedEpochMs = entry.atEpochMs();
            } else if (record.isStep()) {
                done = null;
                endedEpochMs = 0;
            }
        }
        return new MigrationHistory(
                id,
                side,
                new MigrationRequest(asked.who(), asked.job(), asked.what()),
                entries.iterator().next().atEpochMs(),
                endedEpochMs,
                attempts,
                done == null
                        ? "OPEN"
                        : nothingChanged ? "REFUSED" : done.outcome().name(),
                done == null ? "" : done.reason(),
                plan,
                steps(timed),
                events);
    }

    private static String word(String constant) {
        return constant.toLowerCase(Locale.ROOT).replace('_', ' ');
    }

    private static void place(List<Placed> plan, List<PlannedRank> ranks, boolean anew) {
        if (anew && !ranks.isEmpty()) {
            plan.clear();
        }
        for (PlannedRank rank : ranks) {
            plan.removeIf(placed -> placed.rank() == rank.rank());
            plan.add(new Placed(rank.rank(), rank.participant()));
        }
    }

    private static List<Step> steps(List<TransactionRecord.StepTimed> timed) {
        return timed.stream()
                .map(step -> new Step(
                        step.attempt(),
                        step.step(),
                        step.rank(),
                        step.peer(),
                        step.startEpochMs(),
                        step.durationNs() / 1_000_000,
                        step.bytes(),
                        overlapMs(step, timed)))
                .sorted((one, other) -> Long.compare(one.startEpochMs(), other.startEpochMs()))
                .toList();
    }

    /** Returns the time during which steps of other names were running. */
    private static long overlapMs(TransactionRecord.StepTimed step, List<TransactionRecord.StepTimed> all) {
        long endMs = endMs(step);
        List<long[]> others = all.stream()
                .filter(other -> !other.step().equals(step.step()) && other.attempt() == step.attempt())
                // These describe the others, and nothing is done in them.
                .filter(other -> !other.step().equals("pause") && !other.step().startsWith("by "))
                .map(other ->
                        new long[] {Math.max(step.startEpochMs(), other.startEpochMs()), Math.min(endMs, endMs(other))})
                .filter(span -> span[1] > span[0])
                .sorted((one, other) -> Long.compare(one[0], other[0]))
                .toList();
        long total = 0;
        long coveredTo = Long.MIN_VALUE;
        for (long[] span : others) {
            total += Math.max(0, span[1] - Math.max(span[0], coveredTo));
            coveredTo = Math.max(coveredTo, span[1]);
        }
        return total;
    }

    private static long endMs(TransactionRecord.StepTimed step) {
        return step.startEpochMs() + step.durationNs() / 1_000_000;
    }

    private static Event event(JournalEntry entry) {
        TransactionRecord record = entry.record();
        return new Event(entry.atEpochMs(), record.attempt(), record.getClass().getSimpleName(), detail(record));
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
        if (record instanceof TransactionRecord.PreparedHere prepared) {
            return "as " + prepared.self() + " of " + String.join(", ", prepared.participants()) + ", for "
                    + prepared.source();
        }
        if (record instanceof TransactionRecord.TakenOver taken) {
            return "towards " + taken.aim();
        }
        if (record instanceof TransactionRecord.RolledBackHere back) {
            return back.reason();
        }
        if (record instanceof TransactionRecord.JobPlacement placement) {
            return "job " + placement.job() + ": " + String.join(", ", placement.places());
        }
        if (record instanceof TransactionRecord.CopyEnded copy) {
            return copy.sentence();
        }
        if (record instanceof TransactionRecord.PagesChosen pages) {
            return pages.sentence();
        }
        if (record instanceof TransactionRecord.PeerNode node) {
            return node.peer() + ", protocol " + node.protocol()
                    + (node.bootId().isEmpty() ? "" : ", boot ID " + node.bootId());
        }
        if (record instanceof TransactionRecord.JobStopped stopped) {
            return "stopped by the job itself: "
                    + stopped.ranks().stream()
                            .map(rank -> "rank " + rank.rank() + " PIDs "
                                    + rank.processes().stream()
                                            .map(ProcessIdentity::pid)
                                            .toList())
                            .collect(Collectors.joining(", "));
        }
        return record instanceof TransactionRecord.Done done
                ? word(done.outcome().name()) + " " + done.reason()
                : "";
    }

    private static String time(long epochMs) {
        return TIME.format(Instant.ofEpochMilli(epochMs));
    }

    /** The migration in one line. */
    public String line() {
        String line = String.format(
                Locale.ROOT,
                "%-23s  %-20s %-6s %-11s %-12s %s%s",
                time(startedEpochMs),
                id,
                side,
                word(outcome),
                request.job().isEmpty() ? "-" : request.job(),
                endedEpochMs == 0 ? "" : seconds(endedEpochMs - startedEpochMs) + " s ",
                reason);
        return line.stripTrailing();
    }

    private static String seconds(long ms) {
        return String.format(Locale.ROOT, "%.3f", ms / 1000.0);
    }

    /** Prints all of it. */
    public void print(PrintWriter out) {
        out.println("migration  " + id + " (" + side + "'s journal)");
        out.println("asked by   " + (request.who().isEmpty() ? "-" : request.who())
                + (request.job().isEmpty() ? "" : ", job " + request.job())
                + (request.what().isEmpty() ? "" : ", " + request.what()));
        out.println(
                "from, to   " + time(startedEpochMs) + ", " + (endedEpochMs == 0 ? "not over" : time(endedEpochMs)));
        out.println("outcome    " + word(outcome) + " after " + attempts + " attempt" + (attempts == 1 ? "" : "s")
                + (reason.isEmpty() ? "" : ": " + reason));
        for (Placed placed : plan) {
            out.println("rank " + placed.rank() + " -> " + placed.target());
        }
        for (Step step : steps) {
            out.println(String.format(
                    Locale.ROOT,
                    "step       %d %-12s %-8s %-22s +%s s, %s s, %d bytes, %s s beside other steps",
                    step.attempt(),
                    step.name(),
                    step.rank() < 0 ? "all" : "rank " + step.rank(),
                    step.peer(),
                    seconds(step.startEpochMs() - startedEpochMs),
                    seconds(step.durationMs()),
                    step.bytes(),
                    seconds(step.overlapMs())));
        }
        for (Event event : events) {
            out.println(String.format(
                            Locale.ROOT,
                            "%-23s  %d %-20s %s",
                            time(event.atEpochMs()),
                            event.attempt(),
                            event.words(),
                            event.detail())
                    .stripTrailing());
        }
    }
}
