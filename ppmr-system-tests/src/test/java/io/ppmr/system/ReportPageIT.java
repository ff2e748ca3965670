package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.cli.Main;
import io.ppmr.linux.Command;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleCurve;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.migration.samples.SampledValue;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Reports in a real browser: no request, no message, no overflow and enough contrast, in each theme and width. The
 * journals have what services write: {@link ReportIT} makes reports of real migrations.
 */
@Tag("soak")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ReportPageIT {
    private static final String ATTACK = "</style></title><script>alert(1)</script><img src=x onerror=alert(2)>";
    private static final String AXE = "axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify("
            + "found.violations.map(one => one.id + ': ' + one.nodes.map(node => node.html + node.failureSummary))))";

    @TempDir
    private Path directory;

    private static TransactionRecord step(String id, int attempt, String name, long startMs, long durationMs) {
        return new TransactionRecord.StepTimed(
                id, attempt, name, -1, "", startMs, durationMs * 1_000_000, name.equals("write") ? 64 << 20 : 0);
    }

    /** Writes the records and samples of a migration. */
    private void migration(MappedJournal journal, String id, int ranks, String job, List<TransactionRecord> ends)
            throws IOException {
        long startMs = System.currentTimeMillis();
        journal.append(new TransactionRecord.Requested(id, 0, "user " + job, job, "spare1:7411"));
        journal.appendSynced(new TransactionRecord.Begun(
                id,
                1,
                List.of("spare1:7411"),
                IntStream.range(0, ranks)
                        .mapToObj(rank -> new PlannedRank(rank, "spare1:7411", List.of()))
                        .toList()));
        for (String name : List.of("prepare", "checkpoint", "write", "transfer", "read", "pause", "by tcp")) {
            journal.append(step(id, 1, name, startMs + 100L * name.length(), 1500));
        }
        for (TransactionRecord end : ends) {
            journal.appendSynced(end);
        }
        List<SampleCurve> curves = new ArrayList<>();
        for (SampledValue value : SampledValue.values()) {
            curves.add(curve(value, SampleCurve.JOB, ranks));
            if (value == SampledValue.WRITTEN || value == SampledValue.SENT) {
                for (int rank = 0; rank < Math.min(ranks, MigrationSamples.MAX_RANKS); rank++) {
                    curves.add(curve(value, rank, 1 + rank % 3));
                }
                if (ranks > MigrationSamples.MAX_RANKS) {
                    curves.add(curve(value, SampleCurve.LEAST_OF_OTHERS, 1));
                    curves.add(curve(value, SampleCurve.MOST_OF_OTHERS, 4));
                }
            }
        }
        List<Long> timesMs = LongStream.range(0, MigrationSamples.MAX_POINTS)
                .map(i -> 10 * i)
                .boxed()
                .toList();
        new SampleStore(directory).save(id, new MigrationSamples(startMs, timesMs, curves));
    }

    private static SampleCurve curve(SampledValue value, int rank, int factor) {
        return new SampleCurve(
                value,
                rank,
                LongStream.range(0, MigrationSamples.MAX_POINTS)
                        .map(i -> i * factor * 12_345)
                        .boxed()
                        .toList());
    }

    private Map<String, Path> pages() throws IOException, InterruptedException {
        try (MappedJournal journal = MappedJournal.open(directory.resolve(MappedJournal.FILE_NAME))) {
            migration(
                    journal,
                    "committed",
                    1,
                    "solver",
                    List.of(
                            new TransactionRecord.CommitDecided("committed", 1),
                            new TransactionRecord.Done("committed", 1, FinalOutcome.COMMITTED, "")));
            migration(
                    journal,
                    "many",
                    256,
                    "lu.C",
                    List.of(
                            new TransactionRecord.CommitDecided("many", 1),
                            new TransactionRecord.Done("many", 1, FinalOutcome.COMMITTED, "")));
            migration(
                    journal,
                    "attacked",
                    4,
                    ATTACK,
                    List.of(
                            new TransactionRecord.RollBackDecided("attacked", 1, ATTACK.repeat(3), false),
                            new TransactionRecord.Done("attacked", 1, FinalOutcome.ROLLED_BACK, ATTACK.repeat(3))));
            migration(
                    journal,
                    "retried",
                    2,
                    "solver",
                    List.of(
                            new TransactionRecord.RollBackDecided("retried", 1, "a".repeat(300), false),
                            new TransactionRecord.Begun("retried", 2, List.of("spare2:7411"), List.of()),
                            step("retried", 2, "checkpoint", System.currentTimeMillis() + 3000, 900),
                            new TransactionRecord.TakenOver("retried", 2, FinalOutcome.COMMITTED),
                            new TransactionRecord.Done("retried", 2, FinalOutcome.COMMITTED, "")));
            journal.appendSynced(new TransactionRecord.Begun("open", 1, List.of("spare1:7411"), List.of()));
        }
        Map<String, Path> pages = new TreeMap<>();
        for (String id : List.of("committed", "many", "attacked", "retried", "open")) {
            Path page = directory.resolve(id + ".html");
            StringWriter said = new StringWriter();
            PrintWriter out = new PrintWriter(said, true);
            int exit = Main.execute(
                    new String[] {"report", id, "-o", page.toString(), "--journal", directory.toString()}, out, out);
            assertEquals(0, exit, said.toString());
            assertTrue(Files.size(page) <= 1_500_000, id + ": " + Files.size(page));
            pages.put(id, page);
        }
        pages.put("benchmarks", benchmarks());
        return pages;
    }

    /** Has the benchmarks' own program draw the results of the pages. No class here depends on it. */
    private Path benchmarks() throws IOException, InterruptedException {
        Path home = Path.of(System.getProperty("ppmr.home"));
        Path classes = home.resolve("bench/target/classes");
        assertTrue(Files.isDirectory(classes), classes + " is missing: build the module bench before this one");
        Path page = directory.resolve("benchmarks.html");
        List<String> words = new ArrayList<>(List.of(
                System.getProperty("java.home") + "/bin/java",
                "-cp",
                classes + ":" + System.getProperty("java.class.path"),
                "io.ppmr.bench.Bench",
                "report",
                "-o",
                page.toString()));
        try (Stream<Path> results = Files.list(home.resolve("docs/results"))) {
            results.map(Path::toString)
                    .filter(file -> file.endsWith(".json"))
                    .sorted()
                    .forEach(words::add);
        }
        Command.of(words).run(Patience.of(Duration.ofMinutes(2))).requireOutput();
        return page;
    }

    private static String axe() throws IOException {
        try (InputStream in = ReportPageIT.class.getResourceAsStream("/axe.min.js")) {
            assertNotNull(in, "axe-core is not in the class path");
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    @Test
    void shouldBeWholeAndReadableWhenABrowserShowsIt() throws Exception {
        String axe = axe();
        try (ChromiumPage browser = new ChromiumPage(directory.resolve("profile"))) {
            for (Map.Entry<String, Path> page : pages().entrySet()) {
                for (String look : List.of("screen light", "screen dark", "print light", "print dark")) {
                    for (int width : new int[] {1280, 400}) {
                        String medium = look.substring(0, look.indexOf(' '));
                        String scheme = look.substring(look.indexOf(' ') + 1);
                        browser.open(page.getValue(), width, medium, scheme);
                        check(browser, axe, page, width, look);
                    }
                }
            }
        }
    }

    private static void check(ChromiumPage browser, String axe, Map.Entry<String, Path> page, int width, String look)
            throws Exception {
        String where = page.getKey() + ", " + look + ", " + width;
        int wide = browser.evaluate("document.documentElement.scrollWidth").asInt();
        // Paper has a width of its own, and what is printed there cannot be scrolled.
        assertTrue(look.startsWith("print") || wide <= width, where + ": " + wide + " pixels wide");
        JsonNode broken = browser.evaluate("[...document.images].filter(one => !one.naturalWidth).length");
        assertEquals(0, broken.asInt(), where + ": images that are not shown");
        assertEquals(0, browser.evaluate("document.scripts.length").asInt(), where);
        String back = browser.evaluate("getComputedStyle(document.body).backgroundColor")
                .asText();
        assertEquals(look.equals("screen dark") ? "rgb(13, 17, 23)" : "rgb(255, 255, 255)", back, where);
        browser.evaluate(axe + ";0");
        assertEquals("[]", browser.evaluate(AXE).asText(), where);
        assertEquals(List.of(page.getValue().toUri().toString()), browser.requests(), where);
        assertEquals(List.of(), browser.complaints(), where);
        assertFalse(browser.evaluate("document.body.innerText").asText().isEmpty(), where);
    }
}
