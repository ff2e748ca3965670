package io.ppmr.bench;

import io.ppmr.testbed.SizeConverter;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * {@code bench sweep}: stages by chunk, pool and writers (paper 1, Fig. 7 and 8). Every point moves the same number of
 * bytes, so that only the setting differs. Limits are not measured beside it. This shows the shape, and the stages' own
 * commands show the ratio.
 */
@Command(
        name = "sweep",
        description = "aggregation, transfer and pipeline by chunk, pool and writers (Fig. 7 and 8)",
        mixinStandardHelpOptions = true)
final class SweepCommand extends BenchCommand {
    private static final Set<String> STAGES = Set.of("aggregation", "transfer", "pipeline");

    @Option(
            names = "--stages",
            split = ",",
            defaultValue = "aggregation,transfer,pipeline",
            description = "which (default: ${DEFAULT-VALUE})")
    private List<String> stages;

    @Option(
            names = "--chunks",
            split = ",",
            defaultValue = "64k,128k,256k,1m",
            converter = SizeConverter.class,
            description = "sizes of a chunk (default: ${DEFAULT-VALUE})")
    private List<Long> chunks;

    @Option(
            names = "--pools",
            split = ",",
            defaultValue = "1m,8m,32m",
            converter = SizeConverter.class,
            description = "sizes of each side's pool (default: ${DEFAULT-VALUE})")
    private List<Long> pools;

    @Option(
            names = "--writer-counts",
            split = ",",
            defaultValue = "1,8,32",
            description = "numbers of writers (default: ${DEFAULT-VALUE})")
    private List<Integer> writerCounts;

    /** One setting of one stage, for the result. */
    record Point(
            String stage,
            long chunkBytes,
            long poolBytes,
            int writers,
            double medianMibPerSecond,
            double minMibPerSecond,
            double maxMibPerSecond) {}

    SweepCommand() {
        super("it compares settings over loopback");
    }

    @Override
    Result measure() throws Exception {
        requirePoints();
        Map<String, Object> settings = options.settings();
        settings.put("stages", stages);
        settings.put("chunks", chunks);
        settings.put("pools", pools);
        settings.put("writerCounts", writerCounts);
        List<Run> runs = new ArrayList<>();
        List<Point> points = new ArrayList<>();
        long allBytes = options.allBytes();
        for (String stage : stages) {
            for (long chunkBytes : chunks) {
                for (long poolBytes : pools) {
                    for (int writers : writerCounts) {
                        if (poolBytes >= StageOptions.LEAST_CHUNKS * chunkBytes) {
                            options.chunkBytes = chunkBytes;
                            options.poolBytes = poolBytes;
                            options.writers = writers;
                            options.bytesAWriter = allBytes / writers / chunkBytes * chunkBytes;
                            requireSense();
                            points.add(measure(stage, runs));
                        }
                    }
                }
            }
        }
        Result.Machine machine = Result.Machine.here(options.carrier().device());
        return Result.of(spec.name(), settings, machine, runs, null, Map.of("points", points));
    }

    /** Before minutes are spent on the first of them. */
    private void requirePoints() throws IOException {
        for (String stage : stages) {
            if (!STAGES.contains(stage)) {
                throw new IOException(
                        "--stages " + stage + ": not one to sweep; take aggregation, transfer or pipeline");
            }
        }
        if (Collections.min(chunks) < 1 || Collections.min(writerCounts) < 1) {
            throw new IOException("--chunks and --writer-counts must be above 0");
        }
        if (Collections.max(pools) < StageOptions.LEAST_CHUNKS * Collections.min(chunks)) {
            throw new IOException(
                    "no pool of --pools holds " + StageOptions.LEAST_CHUNKS + " chunks of --chunks: give larger pools");
        }
    }

    private Point measure(String name, List<Run> runs) throws Exception {
        List<Double> figures = new ArrayList<>();
        try (Stage stage = new Stage(name, options, 0)) {
            stage.run();
            for (int round = 0; round < options.runs; round++) {
                Run run = stage.run();
                runs.add(run);
                figures.add(run.mibPerSecond);
            }
        }
        Point point = new Point(
                name,
                options.chunkBytes,
                options.poolBytes,
                options.writers,
                Result.median(figures),
                Result.min(figures),
                Result.max(figures));
        out.printf(
                Locale.ROOT,
                "%-12s %5d KiB chunks %3d MiB pool %3d writers %6.0f MiB/s (%.0f to %.0f)%n",
                name,
                point.chunkBytes >> 10,
                point.poolBytes >> 20,
                point.writers,
                point.medianMibPerSecond,
                point.minMibPerSecond,
                point.maxMibPerSecond);
        return point;
    }
}
