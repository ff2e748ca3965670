package io.ppmr.cli.report;

import io.ppmr.cli.report.HtmlPage.ChartVariants;
import io.ppmr.cli.report.HtmlPage.Column;
import io.ppmr.cli.report.HtmlPage.ColumnKind;
import io.ppmr.daemon.history.MigrationHistory;
import io.ppmr.daemon.history.ReportedMigration;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleCurve;
import io.ppmr.migration.samples.SampledValue;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * The report of a migration as a page: its figures are those of {@code ppmr show --json}, its curves those of the
 * samples. Immutable.
 */
public final class MigrationPage {
    /** Maximum size of a page. */
    static final int MAX_PAGE_BYTES = 1_500_000;

    private static final int MAX_ROWS = 400;
    private static final double MS = 1000;
    /** Nothing moved for at least this time: a stall that is named. */
    private static final long STALL_MS = 500;

    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern(
                    "yyyy-MM-dd HH:mm:ss.SSS zzz", Locale.ROOT)
            .withZone(ZoneId.systemDefault());

    private final MigrationHistory migration;
    private final Optional<MigrationSamples> samples;
    private final MigrationCharts charts;
    private final Optional<MigrationPage> other;
    private final String madeBy;

    /**
     * @param samples the samples of this journal's side, if there are any
     * @param other the records of the other end, if they are at hand
     * @param madeBy the program and its version
     */
    public MigrationPage(
            MigrationHistory migration,
            Optional<MigrationSamples> samples,
            Optional<ReportedMigration> other,
            String madeBy) {
        this(
                migration,
                samples,
                new MigrationCharts(migration, samples),
                other.map(end -> otherEnd(new MigrationCharts(migration, samples), end, madeBy)),
                madeBy);
    }

    private MigrationPage(
            MigrationHistory migration,
            Optional<MigrationSamples> samples,
            MigrationCharts charts,
            Optional<MigrationPage> other,
            String madeBy) {
        this.migration = migration;
        this.samples = samples;
        this.madeBy = madeBy;
        this.charts = charts;
        this.other = other;
    }

    /** Makes the part of the other end. Its curves have the time axis of this end if the nodes' clocks agree. */
    private static MigrationPage otherEnd(MigrationCharts own, ReportedMigration end, String madeBy) {
        Optional<MigrationSamples> samples = Optional.ofNullable(end.samples());
        return new MigrationPage(
                end.history(), samples, own.ofOtherEnd(end.history(), samples), Optional.empty(), madeBy);
    }

    /**
     * Returns the HTML file. A page that would be too large leaves the charts for narrow windows out, then those of
     * single ranks.
     *
     * @throws IOException this machine has no fonts, or the page is too large
     */
    public String html() throws IOException {
        SvgCanvas.requireFonts();
        for (int richness = 2; richness >= 0; richness--) {
            String html = html(richness == 2, richness >= 1);
            if (html.getBytes(StandardCharsets.UTF_8).length <= MAX_PAGE_BYTES) {
                return html;
            }
        }
        throw new IOException("the report of migration " + migration.id() + " would have more than " + MAX_PAGE_BYTES
                + " bytes. Remedy: ppmr show " + migration.id() + " --json");
    }

    private String html(boolean hasNarrow, boolean hasRanks) throws IOException {
        String job = migration.request().job().isEmpty()
                ? ""
                : " of job " + migration.request().job();
        HtmlPage page = new HtmlPage("Migration " + migration.id() + job);
        page.heading(1, "Migration " + shortId() + job);
        boolean isGood = migration.outcome().equals("COMMITTED");
        page.paragraph(isGood ? "good" : "bad", outcome());
        page.facts(facts());
        addSteps(page, hasNarrow);
        addBytes(page, other.isPresent() ? " at the " + migration.side() : "", hasNarrow, hasRanks);
        if (other.isPresent()) {
            other.get().addBytes(page, " at the " + other.get().migration.side(), hasNarrow, hasRanks);
        }
        addDecisions(page, other.isPresent() ? " at the " + migration.side() : "");
        if (other.isPresent()) {
            other.get().addDecisions(page, " at the " + other.get().migration.side());
        }
        page.text(
                page.child(page.main(), "footer"),
                "Made by " + madeBy + " from the " + migration.side() + "'s journal. Times are this node's clock"
                        + (other.isPresent() ? ", those of the other end are its own. " : ". ")
                        + "The figures are those of: ppmr show " + migration.id() + " --json");
        return page.write();
    }

    private void addDecisions(HtmlPage page, String where) {
        page.heading(2, "Decisions" + where);
        page.table(
                "What was decided, when and why",
                List.of(
                        new Column("Time", ColumnKind.TIME),
                        new Column("After", ColumnKind.NUMBER),
                        new Column("Attempt", ColumnKind.NUMBER),
                        new Column("What", ColumnKind.TIME),
                        new Column("Reason, detail", ColumnKind.TEXT)),
                migration.events().stream()
                        .limit(MAX_ROWS)
                        .map(event -> List.of(
                                time(event.atEpochMs()),
                                since(event.atEpochMs()),
                                String.valueOf(event.attempt()),
                                event.words(),
                                event.detail()))
                        .toList());
        noteMore(page, migration.events().size());
    }

    private String shortId() {
        return migration.id().length() <= 8 ? migration.id() : migration.id().substring(0, 8);
    }

    private String outcome() {
        String word =
                switch (migration.outcome()) {
                    case "COMMITTED" -> "Committed: the job runs on the spare node";
                    case "ROLLED_BACK" -> "Rolled back: the job continues on its node";
                    case "REFUSED" -> "Refused: nothing of the job was changed";
                    default -> "Not over yet";
                };
        return migration.reason().isEmpty() ? word + "." : word + ". Reason: " + migration.reason();
    }

    private List<List<String>> facts() {
        List<List<String>> facts = new ArrayList<>();
        facts.add(List.of("Migration", migration.id()));
        add(facts, "Job", migration.request().job());
        add(facts, "Requested by", migration.request().who());
        add(facts, "Request", migration.request().what());
        add(facts, "To", ranksByTarget());
        add(facts, "Transport", transport());
        facts.add(List.of("Began", time(migration.startedEpochMs())));
        facts.add(List.of(
                "Ended",
                migration.endedEpochMs() == 0
                        ? "not over"
                        : time(migration.endedEpochMs()) + ", after " + since(migration.endedEpochMs())));
        long pauseMs = migration.steps().stream()
                .filter(step -> step.name().equals(MigrationCharts.PAUSE))
                .mapToLong(MigrationHistory.Step::durationMs)
                .sum();
        facts.add(List.of("Job stopped for", pauseMs == 0 ? "not known" : seconds(pauseMs)));
        facts.add(List.of("Attempts", String.valueOf(migration.attempts())));
        samples.flatMap(all -> all.curve(SampledValue.STAGED, SampleCurve.JOB))
                .ifPresent(curve -> facts.add(List.of("Staged", mebibytes(curve.last()))));
        samples.ifPresent(all -> facts.add(List.of("Longest stall", longestStall(all))));
        return facts;
    }

    private static void add(List<List<String>> facts, String name, String value) {
        if (!value.isEmpty()) {
            facts.add(List.of(name, value));
        }
    }

    /** Returns each target with its ranks, as ranges. */
    private String ranksByTarget() {
        Map<String, List<Integer>> byTarget = new LinkedHashMap<>();
        migration.plan().forEach(placed -> byTarget.computeIfAbsent(placed.target(), missing -> new ArrayList<>())
                .add(placed.rank()));
        return byTarget.entrySet().stream()
                .map(entry -> entry.getKey() + " (" + ranges(entry.getValue()) + ")")
                .collect(Collectors.joining(", "));
    }

    private static String ranges(List<Integer> ranks) {
        List<Integer> sorted = ranks.stream().sorted().toList();
        StringBuilder text = new StringBuilder(sorted.size() == 1 ? "rank " : "ranks ");
        for (int i = 0; i < sorted.size(); i++) {
            int first = sorted.get(i);
            while (i + 1 < sorted.size() && sorted.get(i + 1) == sorted.get(i) + 1) {
                i++;
            }
            text.append(text.charAt(text.length() - 1) == ' ' ? "" : ", ").append(first);
            if (sorted.get(i) != first) {
                text.append(" to ").append(sorted.get(i));
            }
        }
        return text.toString();
    }

    private String transport() {
        return migration.steps().stream()
                .map(MigrationHistory.Step::name)
                .filter(name -> name.startsWith("by "))
                .map(name -> name.substring("by ".length()))
                .distinct()
                .collect(Collectors.joining(", "));
    }

    private static String longestStall(MigrationSamples all) {
        List<SampleCurve> moving = all.curves().stream()
                .filter(curve -> curve.rank() == SampleCurve.JOB && curve.value() != SampledValue.POOL)
                .toList();
        int since = 0;
        long longestMs = 0;
        long atMs = 0;
        for (int i = 1; i < all.timesMs().size(); i++) {
            int now = i;
            int before = i - 1;
            boolean moves = moving.stream()
                    .anyMatch(curve ->
                            !curve.bytes().get(now).equals(curve.bytes().get(before)));
            boolean isUnderWay = moving.stream().anyMatch(curve -> curve.bytes().get(before) > 0)
                    && moving.stream().anyMatch(curve -> curve.bytes().get(before) != curve.last());
            if (moves || !isUnderWay) {
                since = i;
            } else if (all.timesMs().get(i) - all.timesMs().get(since) > longestMs) {
                longestMs = all.timesMs().get(i) - all.timesMs().get(since);
                atMs = all.timesMs().get(since);
            }
        }
        return longestMs < STALL_MS
                ? "none of " + seconds(STALL_MS) + " or more"
                : seconds(longestMs) + " without a byte, from " + seconds(atMs) + " on";
    }

    private void addSteps(HtmlPage page, boolean hasNarrow) throws IOException {
        page.heading(2, "Steps");
        if (migration.steps().isEmpty()) {
            page.paragraph("note", "The journal has no times of steps for this migration.");
            return;
        }
        page.chart(
                variants(hasNarrow, charts::steps),
                "Steps over time as bars: "
                        + charts.bars().stream()
                                .map(step -> step.name().replace('_', ' ') + " from " + since(step.startEpochMs())
                                        + " for " + seconds(step.durationMs()))
                                .collect(Collectors.joining("; ")),
                "Steps over time. The pause of the job is marked behind the bars."
                        + (charts.bars().size() < migration.steps().size()
                                ? " The first " + charts.bars().size() + " steps are drawn."
                                : ""));
        page.table(
                "Steps with their times and bytes",
                List.of(
                        new Column("Attempt", ColumnKind.NUMBER),
                        new Column("Step", ColumnKind.TIME),
                        new Column("Rank", ColumnKind.NUMBER),
                        new Column("Began after", ColumnKind.NUMBER),
                        new Column("Took", ColumnKind.NUMBER),
                        new Column("Beside others", ColumnKind.NUMBER),
                        new Column("Bytes", ColumnKind.NUMBER),
                        new Column("Peer", ColumnKind.TIME)),
                migration.steps().stream()
                        .limit(MAX_ROWS)
                        .map(step -> List.of(
                                String.valueOf(step.attempt()),
                                step.name().replace('_', ' '),
                                step.rank() < 0 ? "all" : String.valueOf(step.rank()),
                                since(step.startEpochMs()),
                                seconds(step.durationMs()),
                                seconds(step.overlapMs()),
                                step.bytes() == 0 ? "" : String.valueOf(step.bytes()),
                                step.peer()))
                        .toList());
        noteMore(page, migration.steps().size());
    }

    private void addBytes(HtmlPage page, String where, boolean hasNarrow, boolean hasRanks) throws IOException {
        page.heading(2, "Bytes" + where);
        if (samples.isEmpty() || samples.get().timesMs().isEmpty()) {
            page.paragraph(
                    "note",
                    "This migration has no samples, so there are no curves. Its service ended before it, the disk was"
                            + " full, or it is so old that its samples were removed.");
            return;
        }
        MigrationSamples all = samples.get();
        page.chart(
                variants(hasNarrow, charts::bytes),
                "Curves of bytes over time. At the end: "
                        + all.curves().stream()
                                .filter(curve -> curve.rank() == SampleCurve.JOB)
                                .map(curve -> MigrationCharts.name(curve.value()) + " " + mebibytes(curve.last()))
                                .collect(Collectors.joining("; ")),
                "Bytes of the whole job over time. Below: the part of the " + migration.side()
                        + "'s pool that is in use. The background shows the pause.");
        if (hasRanks) {
            for (SampledValue value : charts.rankValues()) {
                String what = "Bytes " + MigrationCharts.name(value) + " of each rank over time.";
                page.chart(
                        variants(hasNarrow, (theme, isNarrow) -> charts.ranks(value, theme, isNarrow)),
                        what + " The table below has the values at the end.",
                        what + " Ranks beyond the first " + MigrationSamples.MAX_RANKS + " are one band.");
            }
        }
        page.table(
                "Bytes at the end" + where.replace(" at the ", ", "),
                List.of(
                        new Column("Of", ColumnKind.TIME),
                        new Column("Written", ColumnKind.NUMBER),
                        new Column("Sent", ColumnKind.NUMBER),
                        new Column("Arrived", ColumnKind.NUMBER),
                        new Column("Read", ColumnKind.NUMBER),
                        new Column("Staged", ColumnKind.NUMBER)),
                lastBytes(all));
    }

    private static List<List<String>> lastBytes(MigrationSamples all) {
        // The job is first, then its ranks in their order.
        Map<Integer, Map<SampledValue, Long>> byRank = new TreeMap<>(
                Comparator.comparingLong(rank -> rank >= SampleCurve.JOB ? rank : (long) Integer.MAX_VALUE - rank));
        for (SampleCurve curve : all.curves()) {
            byRank.computeIfAbsent(curve.rank(), missing -> new TreeMap<>()).put(curve.value(), curve.last());
        }
        List<List<String>> rows = new ArrayList<>();
        byRank.forEach((rank, values) -> {
            List<String> row = new ArrayList<>(List.of(whose(rank)));
            for (SampledValue value : List.of(
                    SampledValue.WRITTEN,
                    SampledValue.SENT,
                    SampledValue.ARRIVED,
                    SampledValue.READ,
                    SampledValue.STAGED)) {
                row.add(values.containsKey(value) ? String.valueOf(values.get(value)) : "");
            }
            rows.add(row);
        });
        return rows;
    }

    private static String whose(int rank) {
        return switch (rank) {
            case SampleCurve.JOB -> "the job";
            case SampleCurve.LEAST_OF_OTHERS -> "other ranks, least";
            case SampleCurve.MOST_OF_OTHERS -> "other ranks, most";
            default -> "rank " + rank;
        };
    }

    /** Draws one chart. */
    private interface Drawing {
        String draw(ChartTheme theme, boolean isNarrow) throws IOException;
    }

    private static ChartVariants variants(boolean hasNarrow, Drawing drawing) throws IOException {
        return new ChartVariants(
                drawing.draw(ChartTheme.LIGHT, false),
                drawing.draw(ChartTheme.DARK, false),
                hasNarrow ? drawing.draw(ChartTheme.LIGHT, true) : "",
                hasNarrow ? drawing.draw(ChartTheme.DARK, true) : "");
    }

    private void noteMore(HtmlPage page, int all) {
        if (all > MAX_ROWS) {
            page.paragraph(
                    "note",
                    (all - MAX_ROWS) + " more are left out here: ppmr show " + migration.id() + " lists all of them.");
        }
    }

    private static String time(long epochMs) {
        return TIME.format(Instant.ofEpochMilli(epochMs));
    }

    private String since(long epochMs) {
        return seconds(epochMs - charts.beganMs());
    }

    private static String seconds(long ms) {
        return String.format(Locale.ROOT, "%.3f s", ms / MS);
    }

    private static String mebibytes(long bytes) {
        return String.format(Locale.ROOT, "%.1f MiB", bytes / (double) (1 << 20));
    }
}
