package io.ppmr.cli.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cli.Main;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleCurve;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.migration.samples.SampledValue;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReportCommandTest {
    private static final String ATTACK = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&lt;\u202e\u001b[2J";

    @TempDir
    private Path folder;

    private int exit;

    private String run(String... arguments) {
        StringWriter out = new StringWriter();
        PrintWriter writer = new PrintWriter(out, true);
        exit = Main.execute(arguments, writer, writer);
        return out.toString();
    }

    private void journal(TransactionRecord... records) throws IOException {
        try (MappedJournal journal = MappedJournal.open(folder.resolve("journal"))) {
            for (TransactionRecord record : records) {
                journal.appendSynced(record);
            }
        }
    }

    private String report(String... id) throws IOException {
        Path page = folder.resolve("page.html");
        List<String> words = new ArrayList<>(List.of("report", "-o", page.toString(), "--journal", folder.toString()));
        words.addAll(List.of(id));
        String said = run(words.toArray(String[]::new));
        assertEquals(0, exit, said);
        return Files.readString(page);
    }

    private static TransactionRecord step(String id, int attempt, String name, long startMs, long durationMs) {
        return new TransactionRecord.StepTimed(id, attempt, name, -1, "", startMs, durationMs * 1_000_000, 4096);
    }

    @Test
    void shouldKeepUsersWordsAsTextWhenTheyAreHtmlAndScript() throws IOException {
        journal(
                new TransactionRecord.Requested("m1", 0, ATTACK, ATTACK, ATTACK),
                new TransactionRecord.Begun("m1", 1, List.of(ATTACK), List.of(new PlannedRank(0, ATTACK, List.of()))),
                step("m1", 1, ATTACK, System.currentTimeMillis(), 20),
                new TransactionRecord.RollBackDecided("m1", 1, ATTACK, false),
                new TransactionRecord.Done("m1", 1, FinalOutcome.ROLLED_BACK, ATTACK));
        String page = report();
        // A value in double quotes, which are escaped in it, may have such characters as they are.
        String outside = page.replaceAll(" (alt|aria-label)=\"[^\"]*\"", "");
        assertFalse(outside.contains("<script"), outside);
        assertEquals(1, outside.split("<img", -1).length - 1, "only the chart of steps is an image");
        assertTrue(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), page);
        assertTrue(page.contains("&amp;lt;\\u202e\\u001b[2J"), page);
        assertTrue(page.chars().noneMatch(one -> one == 0x202e || one == 0x1b), page);
        assertTrue(page.contains("default-src 'none'; img-src data:; style-src 'sha256-"), page);
    }

    @Test
    void shouldSayThatThereAreNoCurvesWhenAMigrationHasNoSamples() throws IOException {
        journal(new TransactionRecord.Begun("m1", 1, List.of("spare1:7"), List.of()));
        String page = report("m1");
        assertTrue(page.contains("This migration has no samples"), page);
        assertTrue(page.contains("Not over yet."), page);
    }

    @Test
    void shouldShowTheLastMigrationWhenNoneIsNamed() throws IOException {
        journal(
                new TransactionRecord.Requested("m1", 0, "uid 7", "first", ""),
                new TransactionRecord.Done("m1", 1, FinalOutcome.ROLLED_BACK, "why"),
                new TransactionRecord.Requested("m2", 0, "uid 7", "second", ""),
                new TransactionRecord.Done("m2", 1, FinalOutcome.COMMITTED, ""));
        assertTrue(report().contains("Migration m2 of job second"));
        assertTrue(report("m1").contains("Migration m1 of job first"));
        run("report", "m", "-o", folder.resolve("none.html").toString(), "--journal", folder.toString());
        assertEquals(2, exit);
        run("report", "x", "-o", folder.resolve("none.html").toString(), "--journal", folder.toString());
        assertEquals(1, exit);
        assertFalse(Files.exists(folder.resolve("none.html")));
    }

    @Test
    void shouldStaySmallWhenThereAreThousandsOfRanksAndSteps() throws IOException {
        List<PlannedRank> ranks = IntStream.range(0, 4096)
                .mapToObj(rank -> new PlannedRank(rank, "spare" + rank / 2048 + ":7", List.of()))
                .toList();
        journal(new TransactionRecord.Begun("m1", 1, List.of("spare0:7", "spare1:7"), ranks));
        for (int i = 0; i < 1000; i++) {
            journal(step("m1", 1 + i / 100, "checkpoint", System.currentTimeMillis() + i, 20));
        }
        String page = report();
        assertTrue(page.length() < 1_500_000, "too large: " + page.length());
        assertTrue(page.contains("spare0:7 (ranks 0 to 2047), spare1:7 (ranks 2048 to 4095)"), page);
        assertTrue(page.contains("600 more are left out here"), page);
    }

    @Test
    void shouldNotFollowALinkWhenTheOutputIsOne() throws IOException {
        journal(new TransactionRecord.Done("m1", 1, FinalOutcome.COMMITTED, ""));
        Path victim = Files.writeString(folder.resolve("victim"), "untouched");
        Path link = Files.createSymbolicLink(folder.resolve("page.html"), victim);
        String said = run("report", "-o", link.toString(), "--journal", folder.toString());
        assertEquals(1, exit, said);
        assertEquals("untouched", Files.readString(victim));
    }

    private Path end(String name, TransactionRecord... records) throws IOException {
        Path end = Files.createDirectories(folder.resolve(name));
        try (MappedJournal journal = MappedJournal.open(end.resolve("journal"))) {
            for (TransactionRecord record : records) {
                journal.appendSynced(record);
            }
        }
        SampledValue value = name.equals("source") ? SampledValue.WRITTEN : SampledValue.READ;
        new SampleStore(end)
                .save(
                        "m1",
                        new MigrationSamples(
                                System.currentTimeMillis(),
                                List.of(0L, 5L),
                                List.of(new SampleCurve(value, SampleCurve.JOB, List.of(0L, 7340032L)))));
        return end;
    }

    @Test
    void shouldBeOnePageOfBothEndsWhenTheOthersRecordsAreGiven() throws IOException {
        Path source = end(
                "source",
                new TransactionRecord.Requested("m1", 0, "root", "mine", ""),
                new TransactionRecord.Begun("m1", 1, List.of("spare1:7"), List.of()),
                step("m1", 1, "pause", System.currentTimeMillis(), 20),
                new TransactionRecord.Done("m1", 1, FinalOutcome.COMMITTED, ""));
        Path target = end("target", new TransactionRecord.CommittedHere("m1", 1, false));
        Path records = folder.resolve("target.json");
        assertEquals("", run("report", "-q", "--records", "-o", records.toString(), "--journal", target.toString()));
        Path page = folder.resolve("both.html");
        String printed = run(
                "report", "m1", "-o", page.toString(), "--journal", source.toString(), "--with", records.toString());
        assertEquals(0, exit, printed);
        String html = Files.readString(page);
        for (String part : List.of(
                "Bytes at the source",
                "Bytes at the target",
                "Decisions at the target",
                "written 7.0 MiB",
                "read 7.0 MiB",
                "committed here")) {
            assertTrue(html.contains(part), part + " is missing in " + html);
        }
    }

    @Test
    void shouldRefuseTheOthersRecordsByNameWhenTheyAreOfAnotherMigrationOrDamaged() throws IOException {
        Path source = end("source", new TransactionRecord.Begun("m1", 1, List.of("spare1:7"), List.of()));
        Path other = end("target", new TransactionRecord.CommittedHere("m2", 1, false));
        Path records = folder.resolve("target.json");
        run("report", "m2", "--records", "-o", records.toString(), "--journal", other.toString());
        assertEquals(0, exit);
        String good = Files.readString(records);
        for (String content : List.of(
                good,
                good.replace("m2", "m1").replace("\"target\"", "\"source\""),
                good.replace("m2", "m1").replace("\"outcome\":\"OPEN\"", "\"outcome\":null"),
                "{",
                "[1]",
                " ".repeat(5 << 20))) {
            Files.writeString(records, content);
            Path page = folder.resolve("both.html");
            String printed = run(
                    "report",
                    "m1",
                    "-o",
                    page.toString(),
                    "--journal",
                    source.toString(),
                    "--with",
                    records.toString());
            assertEquals(1, exit, printed);
            assertTrue(printed.contains("the records of the other end in " + records + " cannot be used: "), printed);
            assertFalse(Files.exists(page));
        }
    }
}
