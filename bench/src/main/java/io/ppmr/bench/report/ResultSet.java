package io.ppmr.bench.report;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.bench.report.PaperFigure.FigureSeries;
import io.ppmr.bench.report.PaperFigure.Spread;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.function.ToLongFunction;

/**
 * The results of one set of benchmarks, of {@code --json}, and the figures that they hold. Immutable.
 *
 * @param results the files' contents, by their names
 */
record ResultSet(Map<String, JsonNode> results) {
    private static final int MAX_BYTES = 16 << 20;
    private static final long PAPERS_CHUNK = 128 << 10;
    private static final long PAPERS_POOL = 8 << 20;
    private static final String MIB_PER_S = "MiB/s";
    private static final String SECONDS = "seconds";
    private static final String MORE = "more";

    ResultSet {
        results = new LinkedHashMap<>(results);
    }

    /** A setting of a stage, of a sweep. */
    private record SweepPoint(String stage, long chunkBytes, long poolBytes, int writers, Spread spread) {
        static SweepPoint of(JsonNode point) {
            return new SweepPoint(
                    point.path("stage").asText(),
                    point.path("chunkBytes").asLong(),
                    point.path("poolBytes").asLong(),
                    point.path("writers").asInt(),
                    new Spread(
                            point.path("medianMibPerSecond").asDouble(),
                            point.path("minMibPerSecond").asDouble(),
                            point.path("maxMibPerSecond").asDouble()));
        }
    }

    /** Reads files. Fails by name if one is no result. */
    static ResultSet read(List<Path> files) throws IOException {
        Map<String, JsonNode> read = new LinkedHashMap<>();
        for (Path file : files) {
            try (InputStream in = Files.newInputStream(file)) {
                byte[] text = in.readNBytes(MAX_BYTES + 1);
                if (text.length > MAX_BYTES) {
                    throw new IOException("it is larger than " + MAX_BYTES + " bytes");
                }
                JsonNode result = new ObjectMapper().readTree(text);
                if (!result.path("name").isTextual() || !result.path("machine").isObject()) {
                    throw new IOException("it has no name or no machine");
                }
                read.put(file.toString(), result);
            } catch (IOException e) {
                throw new IOException(
                        file + " is no result of a benchmark: " + e.getMessage()
                                + ". Remedy: name files that ./ppmr bench COMMAND --json has written",
                        e);
            }
        }
        return new ResultSet(read);
    }

    /** Returns the machines and the builds of the results, each once. */
    List<String> machines() {
        Set<String> machines = new LinkedHashSet<>();
        for (JsonNode result : results.values()) {
            JsonNode machine = result.path("machine");
            machines.add(machine.path("processor").asText() + ", "
                    + machine.path("cores").asInt() + " cores, "
                    + (machine.path("memoryBytes").asLong() >> 30) + " GiB, "
                    + machine.path("kernel").asText() + ", "
                    + machine.path("jdk").asText() + ", "
                    + machine.path("fuse").asText() + "; "
                    + machine.path("build").asText("a build that is not named"));
        }
        return List.copyOf(machines);
    }

    /** Returns the figures, by their keys. */
    Map<String, PaperFigure> figures() {
        Map<String, PaperFigure> figures = new LinkedHashMap<>();
        for (PaperFigure figure : all()) {
            figures.put(figure.key(), figure);
        }
        return figures;
    }

    private List<PaperFigure> all() {
        List<SweepPoint> points = new ArrayList<>();
        for (JsonNode result : named("sweep")) {
            result.path("details").path("points").forEach(point -> points.add(SweepPoint.of(point)));
        }
        List<PaperFigure> figures = new ArrayList<>();
        Set<Long> pools = new TreeSet<>();
        points.stream()
                .filter(point -> point.stage().equals("aggregation"))
                .forEach(point -> pools.add(point.poolBytes()));
        for (long pool : pools) {
            String key = "fig7-pool-" + size(pool).replace(" ", "");
            byChunk(figures, key, "Figure 7: aggregation", "aggregation", pool, points);
        }
        byPool(figures, "fig7-chunk-128KiB", "Figure 7: aggregation", "aggregation", points);
        byPool(figures, "fig8-transfer", "Figure 8: transfer", "transfer", points);
        byChunk(figures, "fig8-pipeline-by-chunk", "Figure 8: pipeline", "pipeline", PAPERS_POOL, points);
        byPool(figures, "fig8-pipeline-by-pool", "Figure 8: pipeline", "pipeline", points);
        named("migration").forEach(result -> figures.add(strategies(result)));
        named("multiplex").forEach(result -> figures.add(multiplex(result)));
        return figures;
    }

    private List<JsonNode> named(String name) {
        return results.values().stream()
                .filter(result -> result.path("name").asText().equals(name))
                .toList();
    }

    private void byChunk(
            List<PaperFigure> to, String key, String title, String stage, long pool, List<SweepPoint> points) {
        add(
                to,
                key,
                title + ", pool of " + size(pool),
                stage,
                points,
                point -> point.poolBytes() == pool,
                SweepPoint::chunkBytes,
                "chunk ");
    }

    private void byPool(List<PaperFigure> to, String key, String title, String stage, List<SweepPoint> points) {
        add(
                to,
                key,
                title + ", chunks of " + size(PAPERS_CHUNK),
                stage,
                points,
                point -> point.chunkBytes() == PAPERS_CHUNK,
                SweepPoint::poolBytes,
                "pool ");
    }

    private void add(
            List<PaperFigure> to,
            String key,
            String title,
            String stage,
            List<SweepPoint> points,
            Predicate<SweepPoint> which,
            ToLongFunction<SweepPoint> by,
            String prefix) {
        Map<Long, Map<String, Spread>> series = new TreeMap<>();
        Set<Integer> writers = new TreeSet<>();
        for (SweepPoint point : points) {
            if (point.stage().equals(stage) && which.test(point)) {
                writers.add(point.writers());
                series.computeIfAbsent(by.applyAsLong(point), missing -> new LinkedHashMap<>())
                        .put(String.valueOf(point.writers()), point.spread());
            }
        }
        if (!series.isEmpty()) {
            to.add(new PaperFigure(
                    key,
                    title,
                    "processes",
                    MIB_PER_S,
                    writers.stream().map(String::valueOf).toList(),
                    series.entrySet().stream()
                            .map(one -> new FigureSeries(prefix + size(one.getKey()), one.getValue()))
                            .toList(),
                    limits(stage)));
        }
    }

    /** Returns the limit of a stage, which the stage's own command has measured. */
    private Map<String, Double> limits(String stage) {
        Map<String, Double> limits = new TreeMap<>();
        for (JsonNode result : named(stage)) {
            JsonNode limit = result.path("limit");
            if (limit.path("mibPerSecond").isNumber()) {
                limits.put("limit", limit.path("mibPerSecond").asDouble());
            }
        }
        return limits;
    }

    private static PaperFigure strategies(JsonNode result) {
        JsonNode details = result.path("details");
        List<String> places = new ArrayList<>();
        details.path("strategies")
                .forEach(one -> places.add(one.path("strategy").asText()));
        Map<String, Spread> whole = new LinkedHashMap<>();
        Map<String, Spread> paused = new LinkedHashMap<>();
        for (String strategy : places) {
            JsonNode runs = details.path(strategy + " runs");
            put(whole, strategy, numbers(runs, SECONDS));
            put(paused, strategy, numbers(runs, "pauseSeconds"));
        }
        Map<String, Double> limits = new TreeMap<>();
        JsonNode goodput = details.path("seconds at iperf3's goodput");
        if (goodput.isNumber()) {
            limits.put("at iperf3's goodput", goodput.asDouble());
        }
        return new PaperFigure(
                "fig9-migration",
                "Figure 9: one migration by strategy, link "
                        + result.path("settings").path("link").asText("not named"),
                "strategy",
                SECONDS,
                places,
                List.of(new FigureSeries("whole migration", whole), new FigureSeries("pause of the job", paused)),
                limits);
    }

    private static void put(Map<String, Spread> to, String place, List<Double> figures) {
        if (!figures.isEmpty()) {
            to.put(place, Spread.of(figures));
        }
    }

    private static List<Double> numbers(JsonNode runs, String field) {
        List<Double> numbers = new ArrayList<>();
        runs.forEach(run -> {
            if (run.path(field).isNumber()) {
                numbers.add(run.path(field).asDouble());
            }
        });
        return numbers;
    }

    private PaperFigure multiplex(JsonNode result) {
        Map<Integer, List<JsonNode>> byProcesses = new TreeMap<>();
        result.path("runs").forEach(run -> {
            String count = run.path(MORE).path("strategy").asText().replaceAll("\\D", "");
            if (!count.isEmpty() && count.length() < 6) {
                byProcesses
                        .computeIfAbsent(Integer.valueOf(count), missing -> new ArrayList<>())
                        .add(run);
            }
        });
        Map<String, Map<String, List<Double>>> series = new LinkedHashMap<>();
        byProcesses.forEach((processes, runs) -> {
            String place = String.valueOf(processes);
            for (JsonNode run : runs) {
                note(series, "whole migration", place, run.path(SECONDS).asDouble());
                run.path(MORE)
                        .path("phases")
                        .properties()
                        .forEach(phase -> note(
                                series,
                                phase.getKey(),
                                place,
                                phase.getValue().path(1).asDouble()
                                        - phase.getValue().path(0).asDouble()));
            }
        });
        // What the pipeline's limit would take for these bytes, where its command was measured, too.
        long bytes = 0;
        for (JsonNode run : result.path("runs")) {
            bytes = Math.max(bytes, run.path("bytes").asLong());
        }
        Map<String, Double> limits = new TreeMap<>();
        for (double mibPerSecond : limits("pipeline").values()) {
            limits.put("at the pipeline's limit", bytes / (double) (1 << 20) / mibPerSecond);
        }
        return new PaperFigure(
                "fig11-processes",
                "Figure 11: one migration by the number of processes, the same bytes in all",
                "processes",
                SECONDS,
                byProcesses.keySet().stream().map(String::valueOf).toList(),
                series.entrySet().stream()
                        .map(one -> {
                            Map<String, Spread> values = new LinkedHashMap<>();
                            one.getValue().forEach((place, figures) -> values.put(place, Spread.of(figures)));
                            return new FigureSeries(one.getKey(), values);
                        })
                        .sorted(Comparator.comparing(FigureSeries::name).reversed())
                        .toList(),
                limits);
    }

    private static void note(Map<String, Map<String, List<Double>>> to, String series, String place, double value) {
        to.computeIfAbsent(series, missing -> new LinkedHashMap<>())
                .computeIfAbsent(place, missing -> new ArrayList<>())
                .add(value);
    }

    private static String size(long bytes) {
        return bytes >= 1 << 20 ? (bytes >> 20) + " MiB" : (bytes >> 10) + " KiB";
    }
}
