package io.ppmr.bench;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Takes runs and limits in turn and makes the result of them. */
final class Measurement {
    private final PrintWriter out;
    private final StageOptions options;

    Measurement(PrintWriter out, StageOptions options) {
        this.out = out;
        this.options = options;
    }

    /** Measures: limit, run, run, limit, and so on, after one unmeasured round of both. */
    Result measure(String name, Stage stage, Machine machine) throws Exception {
        Map<String, List<Double>> parts = new LinkedHashMap<>();
        for (String part : stage.parts()) {
            stage.part(part);
            parts.put(part, new ArrayList<>());
        }
        stage.run();
        List<Run> runs = new ArrayList<>();
        List<Double> limits = new ArrayList<>();
        for (int round = 0; round < options.runs; round++) {
            if (round % 2 == 1) {
                runs.add(stage.run());
            }
            Map<String, Double> now = new LinkedHashMap<>();
            for (String part : stage.parts()) {
                now.put(part, stage.part(part));
                parts.get(part).add(now.get(part));
            }
            if (round % 2 == 0) {
                runs.add(stage.run());
            }
            limits.add(stage.limit(now));
            print(round, runs.get(round), now, limits.get(round));
        }
        Map<String, Double> medians = new LinkedHashMap<>();
        parts.forEach((part, figures) -> medians.put(part, Figures.median(figures)));
        double median = Figures.median(runs.stream().map(Run::mibPerSecond).toList());
        double limit = stage.limit(medians);
        Result result = Result.of(
                name,
                options.settings(),
                machine,
                runs,
                new Limit(stage.limitName(), limit, median / limit, limits),
                stage.details(medians, median));
        summarise(result);
        return result;
    }

    private void print(int round, Run run, Map<String, Double> parts, double limit) {
        StringBuilder line = new StringBuilder();
        line.append(String.format(
                Locale.ROOT,
                "%2d  %7.0f MiB/s  cpu %5.2f s  rss %4d MiB  %6s B/chunk   limit %7.0f",
                round + 1,
                run.mibPerSecond(),
                run.serviceCpuSeconds(),
                run.peakRssBytes() >> 20,
                run.allocatedBytesPerChunk() == null
                        ? "-"
                        : String.format(Locale.ROOT, "%.0f", run.allocatedBytesPerChunk()),
                limit));
        if (parts.size() > 1) {
            parts.forEach((part, figure) -> line.append(String.format(Locale.ROOT, "  %s %.0f", part, figure)));
        }
        out.println(line);
    }

    private void summarise(Result result) {
        out.printf(
                Locale.ROOT,
                "%s: median %.0f MiB/s (%.0f to %.0f), limit %.0f (%s), ratio %.2f%n",
                result.name(),
                result.median(),
                result.min(),
                result.max(),
                result.limit().mibPerSecond(),
                result.limit().name(),
                result.ratio());
        result.details()
                .forEach((name, value) -> out.printf(
                        Locale.ROOT,
                        "    %s: %s%n",
                        name,
                        value instanceof Double figure ? String.format(Locale.ROOT, "%.2f", figure) : value));
    }
}
