package io.ppmr.bench.report;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class FigureCommandTest {
    private static final Map<String, Object> MACHINE = Map.of(
            "processor", "<b>a processor</b>", "cores", 2, "memoryBytes", 8L << 30, "build", "ppmr 9.9.9 (0123abc)");

    @TempDir
    private Path folder;

    private Path result(String file, String name, Map<String, Object> more) throws IOException {
        Map<String, Object> all = new HashMap<>(Map.of("name", name, "machine", MACHINE));
        all.putAll(more);
        Path path = folder.resolve(file);
        new ObjectMapper().writeValue(path.toFile(), all);
        return path;
    }

    private Path sweep(String file, double factor) throws IOException {
        List<Map<String, Object>> points = new ArrayList<>();
        for (String stage : List.of("aggregation", "transfer", "pipeline")) {
            for (int chunk : List.of(64, 128)) {
                for (int pool : List.of(1, 8)) {
                    for (int writers : List.of(1, 8, 32)) {
                        double median = factor * (100 * writers + chunk + pool);
                        points.add(Map.of(
                                "stage",
                                stage,
                                "chunkBytes",
                                chunk << 10,
                                "poolBytes",
                                pool << 20,
                                "writers",
                                writers,
                                "medianMibPerSecond",
                                median,
                                "minMibPerSecond",
                                median - 10,
                                "maxMibPerSecond",
                                median + 20));
                    }
                }
            }
        }
        return result(file, "sweep", Map.of("details", Map.of("points", points)));
    }

    private List<Path> all() throws IOException {
        Path stage = result("aggregation.json", "aggregation", Map.of("limit", Map.of("mibPerSecond", 4321.5)));
        Path migration = result(
                "migration.json",
                "migration",
                Map.of(
                        "settings",
                        Map.of("link", "1gbit"),
                        "details",
                        Map.of(
                                "strategies",
                                List.of(Map.of("strategy", "pipeline"), Map.of("strategy", "local")),
                                "pipeline runs",
                                List.of(
                                        Map.of("seconds", 3.0, "pauseSeconds", 2.5),
                                        Map.of("seconds", 3.5),
                                        Map.of("seconds", 2.5)),
                                "local runs",
                                List.of(Map.of("seconds", 9.0)),
                                "seconds at iperf3's goodput",
                                2.25)));
        List<Map<String, Object>> runs = new ArrayList<>();
        for (int processes : List.of(1, 2, 16)) {
            runs.add(Map.of(
                    "seconds",
                    1.0 + processes,
                    "more",
                    Map.of("strategy", processes + " proc", "phases", Map.of("write", List.of(0.5, 1.25)))));
        }
        Path multiplex = result("multiplex.json", "multiplex", Map.of("runs", runs));
        return List.of(sweep("sweep.json", 1), stage, migration, multiplex);
    }

    private String run(int exit, List<Path> files, String... options) {
        StringWriter printed = new StringWriter();
        PrintWriter writer = new PrintWriter(printed, true);
        List<String> words = new ArrayList<>(files.stream().map(Path::toString).toList());
        words.addAll(List.of(options));
        int got = new CommandLine(new FigureCommand())
                .setOut(writer)
                .setErr(writer)
                .setExecutionExceptionHandler((failure, command, parsed) -> {
                    writer.println(failure.getMessage());
                    return 1;
                })
                .execute(words.toArray(String[]::new));
        assertEquals(exit, got, printed.toString());
        return printed.toString();
    }

    @Test
    void shouldDrawTheFiguresWithLimitSpreadAndMachineWhenResultsAreGiven() throws IOException {
        Path html = folder.resolve("all.html");
        Path svg = folder.resolve("svg");
        run(0, all(), "-o", html.toString(), "--svg", svg.toString());
        String page = Files.readString(html);
        for (String part : List.of(
                "Figure 7: aggregation, pool of 1 MiB",
                "Figure 7: aggregation, pool of 8 MiB",
                "Figure 8: transfer, chunks of 128 KiB",
                "Figure 8: pipeline, pool of 8 MiB",
                "Figure 9: one migration by strategy, link 1gbit",
                "Figure 11: one migration by the number of processes",
                "&lt;b&gt;a processor&lt;/b&gt;, 2 cores, 8 GiB",
                "ppmr 9.9.9 (0123abc)",
                "<td class=\"number\">3.00 (2.50 to 3.50)</td>",
                "<td class=\"number\">0.75 (0.75 to 0.75)</td>",
                "<td class=\"number\">4321.50</td>",
                "at iperf3's goodput")) {
            assertTrue(page.contains(part), part + " is missing in " + page);
        }
        String fig7 = Files.readString(svg.resolve("fig7-pool-8MiB.svg"));
        assertTrue(fig7.contains(">limit<") && fig7.contains(">chunk 64 KiB<"), fig7);
        assertTrue(fig7.contains("&lt;b&gt;a processor&lt;/b&gt;, 2 cores, 8 GiB"), fig7);
        assertTrue(fig7.contains("ppmr 9.9.9 (0123abc)"), fig7);
        try (Stream<Path> written = Files.list(svg)) {
            assertEquals(8, written.count());
        }
    }

    @Test
    void shouldMakeEqualFilesWhenTheResultsAreEqual() throws IOException {
        List<Path> files = all();
        for (String name : List.of("one", "two")) {
            run(
                    0,
                    files,
                    "-o",
                    folder.resolve(name + ".html").toString(),
                    "--svg",
                    folder.resolve(name).toString());
        }
        assertArrayEquals(
                Files.readAllBytes(folder.resolve("one.html")), Files.readAllBytes(folder.resolve("two.html")));
        for (String figure : List.of("fig8-transfer.svg", "fig9-migration.svg", "fig11-processes.svg")) {
            assertEquals(
                    Files.readString(folder.resolve("one").resolve(figure)),
                    Files.readString(folder.resolve("two").resolve(figure)));
        }
    }

    /** The figures of the pages are drawn from the results that are stored beside them. */
    @Test
    void shouldDrawTheFiguresOfThePagesWhenTheirResultsAreGiven() throws IOException {
        Path home = Path.of(System.getProperty("ppmr.home"));
        Path pages = home.resolve("docs/results");
        List<Path> results;
        Map<String, String> kept = new TreeMap<>();
        try (Stream<Path> files = Files.list(pages)) {
            results = files.filter(file -> file.toString().endsWith(".json"))
                    .sorted()
                    .toList();
        }
        try (Stream<Path> files = Files.list(pages)) {
            for (Path file :
                    files.filter(one -> one.toString().endsWith(".svg")).toList()) {
                kept.put(file.getFileName().toString(), Files.readString(file));
            }
        }
        Path drawn = folder.resolve("drawn");
        run(0, results, "-o", folder.resolve("all.html").toString(), "--svg", drawn.toString());
        Map<String, String> made = new TreeMap<>();
        String page = Files.readString(pages.resolve("performance.md"));
        try (Stream<Path> files = Files.list(drawn)) {
            for (Path file : files.toList()) {
                String name = file.getFileName().toString();
                made.put(name, Files.readString(file));
                assertTrue(page.contains("(" + name + ")"), name + " is not on the page");
            }
        }
        assertEquals(made, kept, "stale: ./ppmr bench report docs/results/*.json -o F.html --svg docs/results");
        assertFalse(made.isEmpty());
    }

    @Test
    void shouldDrawBothSetsInOneFigureWhenTwoAreGiven() throws IOException {
        Path html = folder.resolve("both.html");
        run(
                0,
                List.of(sweep("a.json", 1)),
                "-o",
                html.toString(),
                "--against",
                sweep("b.json", 2).toString());
        String page = Files.readString(html);
        assertTrue(page.contains("<td class=\"text\">chunk 64 KiB</td>"), page);
        assertTrue(page.contains("<td class=\"text\">chunk 64 KiB (second set)</td>"), page);
        assertTrue(page.contains("Machine and build (second set)"), page);
    }

    @Test
    void shouldRefuseByNameWhenAFileIsNoResult() throws IOException {
        Path html = folder.resolve("none.html");
        for (String content : List.of("{}", "[]", "no JSON", "")) {
            Path file = Files.writeString(folder.resolve("wrong.json"), content);
            String printed = run(1, List.of(file), "-o", html.toString());
            assertTrue(printed.contains("wrong.json is no result of a benchmark: "), printed);
        }
        Path idle = result("idle.json", "idle", Map.of());
        assertTrue(run(1, List.of(idle), "-o", html.toString()).contains("no figure can be drawn"));
        assertFalse(Files.exists(html));
    }
}
