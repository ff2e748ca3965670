package io.ppmr.bench;

import io.ppmr.testbed.SizeConverter;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Measures migrations of pods with connections, beside dump, copy and restore by plain CRIU. */
@Command(
        name = "pods",
        description = "migrations of pods with connections, in turn with dump, copy and restore by plain CRIU: from"
                + " cable out to cable in",
        mixinStandardHelpOptions = true)
public final class PodsCommand extends ServiceCommands.ServiceCommand {
    @Option(
            names = "--sizes",
            split = ",",
            paramLabel = "SIZE",
            converter = SizeConverter.class,
            defaultValue = "64m,256m,1g",
            description = "of the memory of a pod (default: ${DEFAULT-VALUE})")
    private List<Long> sizes;

    @Override
    Result measure() throws Exception {
        Map<String, Object> details = new LinkedHashMap<>();
        details.put("load before", load());
        Map<Long, Map<String, List<Run>>> runs = new LinkedHashMap<>();
        for (int round = 0; round < options.runs; round++) {
            for (long size : sizes) {
                for (String strategy : List.of(PodStrategies.PPMR, PodStrategies.COPY)) {
                    try (Testbed testbed = Testbed.create("bench")) {
                        Run run = new PodStrategies(testbed, link).move(strategy, size);
                        print(run);
                        runs.computeIfAbsent(size, key -> new LinkedHashMap<>())
                                .computeIfAbsent(strategy, key -> new ArrayList<>())
                                .add(run);
                    }
                }
            }
        }
        details.put("load after", load());
        runs.forEach((size, strategies) -> compare(size, strategies, details));
        long largest = sizes.stream().mapToLong(Long::longValue).max().orElseThrow();
        return result(runs.get(largest).get(PodStrategies.PPMR), null, details);
    }

    private static String load() throws IOException {
        return Files.readString(Path.of("/proc/loadavg")).strip();
    }

    private void compare(long size, Map<String, List<Run>> strategies, Map<String, Object> details) {
        String memory = (size >> 20) + " MiB, ";
        strategies.forEach((strategy, ofIt) -> {
            details.put(memory + strategy + " runs", ofIt);
            details.put(memory + strategy + " seconds", median(ofIt));
            Map<String, Double> gaps = gaps(ofIt);
            details.put(memory + strategy + " longest gap of a peer, seconds", gaps);
            out.printf(
                    Locale.ROOT,
                    "%s%-8s cable out to cable in, median %.2f s; longest gap of a peer %s%n",
                    memory,
                    strategy,
                    median(ofIt),
                    gaps);
        });
        double ratio = median(strategies.get(PodStrategies.PPMR)) / median(strategies.get(PodStrategies.COPY));
        details.put(memory + "pod by pod-copy", ratio);
        out.printf(Locale.ROOT, "%spod by pod-copy %.2f%n", memory, ratio);
    }

    /** The medians of each peer's. */
    private static Map<String, Double> gaps(List<Run> runs) {
        Map<String, Double> medians = new LinkedHashMap<>();
        for (String peer : runs.get(0).longestGapSeconds.keySet()) {
            medians.put(
                    peer,
                    Result.median(runs.stream()
                            .map(run -> run.longestGapSeconds.get(peer))
                            .toList()));
        }
        return medians;
    }

    private static double median(List<Run> runs) {
        return Result.median(runs.stream().map(run -> run.seconds).toList());
    }
}
