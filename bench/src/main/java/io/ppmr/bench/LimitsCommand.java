package io.ppmr.bench;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** {@code bench limits}: what this machine can do at most, without any of ours. */
@Command(
        name = "limits",
        description = "only the limits of this machine: copy, A, B, R, loopback, disk",
        mixinStandardHelpOptions = true)
final class LimitsCommand implements Callable<Integer> {
    /** One limit. */
    private interface Figure {
        double mibPerSecond() throws Exception;
    }

    @Spec
    private CommandSpec spec;

    @Mixin
    private StageOptions options;

    @Override
    public Integer call() throws Exception {
        options.requireSense(spec.name(), "its B is that of TCP");
        PrintWriter out = spec.commandLine().getOut();
        Map<String, List<Double>> figures = new LinkedHashMap<>();
        try (Bed bed = new Bed()) {
            Map<String, Figure> limits = limits(bed);
            for (int round = 0; round < options.runs; round++) {
                for (Map.Entry<String, Figure> limit : limits.entrySet()) {
                    figures.computeIfAbsent(limit.getKey(), name -> new ArrayList<>())
                            .add(limit.getValue().mibPerSecond());
                }
            }
        }
        Map<String, Object> details = new LinkedHashMap<>();
        figures.forEach((name, runs) -> {
            details.put(name, Figures.median(runs));
            out.printf(
                    Locale.ROOT,
                    "%-28s %8.0f MiB/s (%.0f to %.0f)%n",
                    name,
                    Figures.median(runs),
                    Figures.min(runs),
                    Figures.max(runs));
        });
        if (!Iperf.present()) {
            out.println("iperf3 is not installed: left out");
        }
        if (options.json != null) {
            Result.of(
                            "limits",
                            options.settings(),
                            Machine.here(options.carrier().device()),
                            List.of(),
                            null,
                            details)
                    .write(options.json);
        }
        return 0;
    }

    private Map<String, Figure> limits(Bed bed) throws Exception {
        Limits limits = new Limits(options);
        LimitFilesystem plain = bed.limit("limit-a", options, false, false);
        LimitFilesystem crc = bed.limit("limit-a-crc", options, true, false);
        LimitFilesystem cycled = bed.limit("limit-r", options, false, true);
        cycled.write(options);
        String file = bed.folder("disk").resolve("bytes").toString();
        Map<String, Figure> all = new LinkedHashMap<>();
        all.put("copy, one thread", () -> limits.copy(1).mibPerSecond());
        all.put("copy, two threads", () -> limits.copy(2).mibPerSecond());
        all.put("A", () -> plain.write(options).mibPerSecond());
        all.put("A with CRC", () -> crc.write(options).mibPerSecond());
        all.put("B", () -> limits.net(true).mibPerSecond());
        all.put("B without CRC", () -> limits.net(false).mibPerSecond());
        all.put("R", () -> cycled.read(options).mibPerSecond());
        all.put("disk, past the page cache", () -> limits.disk(file).mibPerSecond());
        if (Iperf.present()) {
            all.put("loopback, iperf3", () -> Iperf.mibPerSecond(1));
        }
        return all;
    }
}
