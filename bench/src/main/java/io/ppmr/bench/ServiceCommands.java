package io.ppmr.bench;

import io.ppmr.testbed.ProcessFigures;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.SizeConverter;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** The commands that measure the product's two services between two nodes, migrations and idleness. */
final class ServiceCommands {
    private static final String LINK = "veth between two network namespaces";

    private ServiceCommands() {}

    /** The frame of these commands: {@code --writers} is the job's processes, {@code --bytes} the memory of each. */
    abstract static class ServiceCommand extends BenchCommand {
        @Option(
                names = "--link",
                paramLabel = "RATE",
                defaultValue = "",
                description = "shape the link between the nodes, as tc(8) writes it, such as 1gbit (default: not)")
        String link;

        ServiceCommand() {
            super("its two nodes are network namespaces without an RDMA device");
        }

        /** Makes two nodes for a job with this number of processes. */
        Services nodes(Testbed testbed, int processes, long bytesEach) throws Exception {
            return Services.of(testbed, options, link, processes, bytesEach);
        }

        /** Makes the nodes and starts both services. */
        Services services(Testbed testbed, int processes, long bytesEach) throws Exception {
            Services services = nodes(testbed, processes, bytesEach);
            return services.start(services.restartProgram());
        }

        Result result(List<Run> runs, Result.Limit limit, Map<String, Object> details) throws Exception {
            Map<String, Object> settings = options.settings();
            settings.put("link", link.isEmpty() ? "not shaped" : link);
            Result.Machine machine = Result.Machine.here(link.isEmpty() ? LINK : LINK + ", " + link);
            return Result.of(spec.name(), settings, machine, runs, limit, details);
        }

        void print(Run run) {
            Run.Phases phases = run.more;
            StringBuilder line = new StringBuilder(String.format(
                    Locale.ROOT,
                    "%-9s %6.0f MiB in %7.2f s, %6.0f MiB/s ",
                    phases.strategy(),
                    run.bytes / (double) (1 << 20),
                    run.seconds,
                    run.mibPerSecond));
            phases.phases()
                    .forEach((name, phase) ->
                            line.append(String.format(Locale.ROOT, "  %s %.2f-%.2f", name, phase[0], phase[1])));
            out.println(line);
        }
    }

    @Command(
            name = "migration",
            description =
                    "a whole migration by the four strategies of the paper (Fig. 3, 9, Table I), and by those of CRIU",
            mixinStandardHelpOptions = true)
    static final class Migration extends ServiceCommand {
        private static final String CRIU = "criu-";

        /** A strategy's medians. */
        record Strategy(String strategy, double medianSeconds, double medianPauseSeconds) {}

        @Option(
                names = "--strategies",
                split = ",",
                defaultValue = "pipeline,staged,local,shared",
                description = "which: pipeline, staged, local and shared move processes that checkpoint themselves,"
                        + " criu-auto, criu-precopied, criu-precopied-held (its copies run when they are whole),"
                        + " criu-streamed, criu-images, criu-page-server and criu-copy plain ones, the last two by"
                        + " CRIU's own means (default: ${DEFAULT-VALUE})")
        private List<String> strategies;

        @Option(
                names = "--shape",
                paramLabel = "SHAPE",
                defaultValue = "contiguous",
                description = "of the memory of plain processes: contiguous, fragmented, shared or forked (default:"
                        + " ${DEFAULT-VALUE})")
        private String shape;

        @Option(
                names = "--writes",
                paramLabel = "SIZE",
                defaultValue = "0",
                converter = SizeConverter.class,
                description = "bytes a second that all plain processes together write while they are moved (default:"
                        + " ${DEFAULT-VALUE})")
        private long writtenBytes;

        @Override
        Result measure() throws Exception {
            Map<String, List<Run>> runs = new LinkedHashMap<>();
            List<Double> slowest = new ArrayList<>();
            for (int round = 0; round < options.runs; round++) {
                for (String strategy : strategies) {
                    Run run = once(strategy, slowest);
                    runs.computeIfAbsent(strategy, name -> new ArrayList<>()).add(run);
                    print(run);
                }
            }
            return result(runs, slowest);
        }

        private Run once(String strategy, List<Double> slowest) throws Exception {
            try (Testbed testbed = Testbed.create("bench")) {
                Path folder = testbed.folder(strategy);
                boolean plain = strategy.startsWith(CRIU);
                Services services = plain
                        ? Services.plain(
                                testbed, options, link, options.writers, options.bytesAWriter, shape, writtenBytes)
                        : nodes(testbed, options.writers, options.bytesAWriter);
                TwoNodes nodes = services.nodes();
                if (strategy.equals("pipeline") && Programs.present(Programs.IPERF)) {
                    slowest.add(Programs.iperf(nodes.b().prefix(), nodes.a().prefix(), TwoNodes.ADDRESS_B, 3, 1));
                }
                if (strategy.equals("local") || strategy.equals("shared")) {
                    services.startJob();
                    FileStrategies files = new FileStrategies(services, folder, options.writers);
                    return strategy.equals("local") ? files.local() : files.shared();
                }
                if (plain) {
                    return migratePlain(strategy, services, folder);
                }
                services.start(
                        strategy.equals("staged")
                                ? FileStrategies.stagingRestart(folder, nodes.bin())
                                : services.restartProgram());
                services.startJob();
                return services.migrate(strategy);
            }
        }

        private Run migratePlain(String strategy, Services services, Path folder) throws Exception {
            String how = strategy.substring(CRIU.length());
            if (how.equals("copy") || how.equals("page-server")) {
                services.startJob();
                FileStrategies files = new FileStrategies(services, folder, options.writers);
                return how.equals("copy") ? files.criuCopy() : files.criuPageServer();
            }
            services.startCriu(how);
            services.startJob();
            return services.migrate(strategy);
        }

        private Result result(Map<String, List<Run>> runs, List<Double> slowest) throws Exception {
            String first = strategies.get(0);
            double ours = median(runs.get(first));
            Map<String, Object> details = new LinkedHashMap<>();
            List<Strategy> table = new ArrayList<>();
            details.put("shape of plain processes' memory", shape);
            details.put("page cache", "synced and emptied before files are read; written past it where dd writes");
            runs.forEach((strategy, ofIt) -> {
                details.put(strategy + " runs", ofIt);
                details.put(strategy + " seconds", median(ofIt));
                details.put(strategy + " pause seconds", pause(ofIt));
                table.add(new Strategy(strategy, median(ofIt), pause(ofIt)));
                details.put(first + " is faster than " + strategy + " by", median(ofIt) / ours);
                out.printf(
                        Locale.ROOT,
                        "%-16s median %.2f s, pause %.2f s, factor %.2f%n",
                        strategy,
                        median(ofIt),
                        pause(ofIt),
                        median(ofIt) / ours);
            });
            details.put("strategies", table);
            details.put("bytes a second written by plain processes", writtenBytes);
            Result.Limit limit = null;
            if (!slowest.isEmpty()) {
                double goodput = Result.median(slowest);
                List<Double> rates =
                        runs.get(first).stream().map(run -> run.mibPerSecond).toList();
                limit = new Result.Limit("iperf3 over the same link", goodput, Result.median(rates) / goodput, slowest);
                double iperfSeconds = runs.get(first).get(0).bytes / (double) (1 << 20) / goodput;
                details.put("seconds at iperf3's goodput", iperfSeconds);
                details.put("seconds allowed, 1.03 times that and 0.3", 1.03 * iperfSeconds + 0.3);
                out.printf(
                        Locale.ROOT,
                        "iperf3 %.0f MiB/s: %.2f s; 1.03 times that and 0.3 s: %.2f s; %s took %.2f s%n",
                        goodput,
                        iperfSeconds,
                        1.03 * iperfSeconds + 0.3,
                        first,
                        ours);
            }
            return result(runs.get(first), limit, details);
        }

        /** The pause is from the stop of the job until its release. */
        private static double pause(List<Run> runs) {
            return Result.median(runs.stream().map(run -> run.pauseSeconds).toList());
        }

        private static double median(List<Run> runs) {
            return Result.median(runs.stream().map(run -> run.seconds).toList());
        }
    }

    @Command(
            name = "cold",
            description = "the first migration after the services have started, against the tenth",
            mixinStandardHelpOptions = true)
    static final class Cold extends ServiceCommand {
        private static final int LAST = 10;

        @Override
        Result measure() throws Exception {
            List<Run> firsts = new ArrayList<>();
            List<Double> tenths = new ArrayList<>();
            for (int round = 0; round < options.runs; round++) {
                try (Testbed testbed = Testbed.create("bench")) {
                    Services services = services(testbed, options.writers, options.bytesAWriter);
                    for (int number = 1; number <= LAST; number++) {
                        services.startJob();
                        Run run = services.migrate("pipeline");
                        services.endCopies();
                        print(run);
                        if (number == 1) {
                            firsts.add(run);
                        } else if (number == LAST) {
                            tenths.add(run.mibPerSecond);
                        }
                    }
                }
            }
            double first =
                    Result.median(firsts.stream().map(run -> run.mibPerSecond).toList());
            Result.Limit limit = new Result.Limit(
                    "the tenth migration", Result.median(tenths), first / Result.median(tenths), tenths);
            out.printf(Locale.ROOT, "first to tenth: %.2f%n", limit.ratio());
            return result(firsts, limit, Map.of());
        }
    }

    @Command(
            name = "multiplex",
            description = "1, 2, 4, 8, 16, 32, 64 processes with the same bytes in all (Fig. 11)",
            mixinStandardHelpOptions = true)
    static final class Multiplex extends ServiceCommand {
        private static final int MOST = 64;

        @Override
        Result measure() throws Exception {
            long all = options.allBytes();
            List<Run> runs = new ArrayList<>();
            Map<String, Object> details = new LinkedHashMap<>();
            for (int processes = 1; processes <= MOST; processes *= 2) {
                List<Double> seconds = new ArrayList<>();
                for (int round = 0; round < options.runs; round++) {
                    try (Testbed testbed = Testbed.create("bench")) {
                        Services services = services(testbed, processes, all / processes);
                        services.startJob();
                        Run run = services.migrate(processes + " proc");
                        print(run);
                        runs.add(run);
                        seconds.add(run.seconds);
                    }
                }
                details.put(processes + " processes, seconds", Result.median(seconds));
            }
            return result(runs, null, details);
        }
    }

    @Command(name = "idle", description = "an idle pair of services over a minute", mixinStandardHelpOptions = true)
    static final class Idle extends ServiceCommand {
        @Option(
                names = "--seconds",
                paramLabel = "N",
                defaultValue = "60",
                description = "how long it is watched (default: ${DEFAULT-VALUE})")
        private int seconds;

        @Override
        Result measure() throws Exception {
            List<Run> runs = new ArrayList<>();
            try (Testbed testbed = Testbed.create("bench")) {
                Services services = services(testbed, 1, options.bytesAWriter);
                for (int round = 0; round < options.runs; round++) {
                    Run run = watch(services);
                    runs.add(run);
                    out.printf(
                            Locale.ROOT,
                            "%.2f %% of a core, %.1f wake-ups a second, %d MiB resident at most%n",
                            run.cpuPercent,
                            run.wakeupsPerSecond,
                            run.peakRssBytes >> 20);
                }
            }
            return result(runs, null, Map.of("seconds", seconds));
        }

        private Run watch(Services services) throws IOException, InterruptedException {
            List<ServiceProcess> both =
                    List.of(services.nodes().source(), services.nodes().target());
            List<ProcessFigures> before = new ArrayList<>();
            for (ServiceProcess service : both) {
                before.add(service.figures());
            }
            long startNs = System.nanoTime();
            // This latch is never counted down, so the wait only ends with the time.
            if (new CountDownLatch(1).await(seconds, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the latch was counted down");
            }
            double lasted = (System.nanoTime() - startNs) / 1e9;
            Run run = new Run(0, lasted);
            run.cpuPercent = 0.0;
            run.wakeupsPerSecond = 0.0;
            run.peakRssBytes = 0L;
            for (int i = 0; i < both.size(); i++) {
                ProcessFigures after = both.get(i).figures();
                double cpuSeconds = after.cpuSeconds() - before.get(i).cpuSeconds();
                run.cpuPercent = Math.max(run.cpuPercent, cpuSeconds / lasted * 100);
                run.wakeupsPerSecond = Math.max(
                        run.wakeupsPerSecond, (after.wakeUps() - before.get(i).wakeUps()) / lasted);
                run.peakRssBytes = Math.max(run.peakRssBytes, after.peakRssBytes());
            }
            return run;
        }
    }
}
