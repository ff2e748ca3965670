package io.ppmr.bench;

import io.ppmr.cli.demo.ServiceProcess;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** The commands that measure the product's two services between two nodes, migrations and idleness. */
final class ServiceCommands {
    private static final String LINK = "veth between two network namespaces";

    private ServiceCommands() {}

    /** What they have in common: {@code --writers} is the job's processes, {@code --bytes} the memory of each. */
    abstract static class ServiceCommand implements Callable<Integer> {
        @Spec
        CommandSpec spec;

        @Mixin
        StageOptions options;

        @Option(
                names = "--link",
                paramLabel = "RATE",
                defaultValue = "",
                description = "shape the link between the nodes, as tc(8) writes it, such as 1gbit (default: not)")
        String link;

        PrintWriter out;

        abstract Result measure() throws Exception;

        @Override
        public Integer call() throws Exception {
            options.requireSense(spec.name(), "its two nodes are network namespaces without an RDMA device");
            out = spec.commandLine().getOut();
            Result result = measure();
            if (options.json != null) {
                result.write(options.json);
            }
            return 0;
        }

        Map<String, Object> settings() {
            Map<String, Object> settings = options.settings();
            settings.put("link", link.isEmpty() ? "not shaped" : link);
            return settings;
        }

        Machine machine() throws IOException, InterruptedException {
            return Machine.here(link.isEmpty() ? LINK : LINK + ", " + link);
        }

        void print(Run run) {
            Phases phases = (Phases) run.more();
            StringBuilder line = new StringBuilder(String.format(
                    Locale.ROOT,
                    "%-9s %6.0f MiB in %7.2f s, %6.0f MiB/s ",
                    phases.strategy(),
                    run.bytes() / (double) (1 << 20),
                    run.seconds(),
                    run.mibPerSecond()));
            phases.phases()
                    .forEach((name, phase) ->
                            line.append(String.format(Locale.ROOT, "  %s %.2f-%.2f", name, phase[0], phase[1])));
            out.println(line);
        }
    }

    @Command(
            name = "migration",
            description = "a whole migration by the four strategies of the paper (Fig. 3, 9, Table I)",
            mixinStandardHelpOptions = true)
    static final class Migration extends ServiceCommand {
        @Option(
                names = "--strategies",
                split = ",",
                defaultValue = "pipeline,staged,local,shared",
                description = "which (default: ${DEFAULT-VALUE})")
        private List<String> strategies;

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
            try (Bed bed = new Bed()) {
                Path folder = bed.folder(strategy);
                TwoNodes nodes = bed.add(new TwoNodes(folder, link));
                if (strategy.equals("pipeline") && Programs.present("iperf3")) {
                    slowest.add(nodes.iperf());
                }
                if (strategy.equals("local") || strategy.equals("shared")) {
                    nodes.startJob(options.writers, options.bytesAWriter);
                    FileStrategies files = new FileStrategies(nodes, folder, options.writers);
                    return strategy.equals("local") ? files.local() : files.shared();
                }
                String restart = strategy.equals("staged")
                        ? FileStrategies.stagingRestart(folder, nodes.bin()).toString()
                        : nodes.bin().resolve("cr_restart").toString();
                Services services = bed.add(new Services(nodes, folder, options, options.writers, restart));
                nodes.startJob(options.writers, options.bytesAWriter);
                return services.migrate(strategy);
            }
        }

        private Result result(Map<String, List<Run>> runs, List<Double> slowest) throws Exception {
            String first = strategies.get(0);
            double ours = median(runs.get(first));
            Map<String, Object> details = new LinkedHashMap<>();
            details.put("page cache", "synced and emptied before files are read; written past it where dd writes");
            runs.forEach((strategy, ofIt) -> {
                details.put(strategy + " runs", ofIt);
                details.put(strategy + " seconds", median(ofIt));
                details.put(first + " is faster than " + strategy + " by", median(ofIt) / ours);
                out.printf(
                        Locale.ROOT, "%-9s median %.2f s, factor %.2f%n", strategy, median(ofIt), median(ofIt) / ours);
            });
            Limit limit = null;
            if (!slowest.isEmpty()) {
                double goodput = Figures.median(slowest);
                List<Double> rates =
                        runs.get(first).stream().map(Run::mibPerSecond).toList();
                limit = new Limit("iperf3 over the same link", goodput, Figures.median(rates) / goodput, slowest);
                double iperfSeconds = runs.get(first).get(0).bytes() / (double) (1 << 20) / goodput;
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
            return Result.of("migration", settings(), machine(), runs.get(first), limit, details);
        }

        private static double median(List<Run> runs) {
            return Figures.median(runs.stream().map(Run::seconds).toList());
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
                try (Bed bed = new Bed()) {
                    Path folder = bed.folder("cold");
                    TwoNodes nodes = bed.add(new TwoNodes(folder, link));
                    Services services = bed.add(new Services(
                            nodes,
                            folder,
                            options,
                            options.writers,
                            nodes.bin().resolve("cr_restart").toString()));
                    for (int number = 1; number <= LAST; number++) {
                        nodes.startJob(options.writers, options.bytesAWriter);
                        Run run = services.migrate("pipeline");
                        nodes.endCopies();
                        print(run);
                        if (number == 1) {
                            firsts.add(run);
                        } else if (number == LAST) {
                            tenths.add(run.mibPerSecond());
                        }
                    }
                }
            }
            double first = Figures.median(firsts.stream().map(Run::mibPerSecond).toList());
            Limit limit =
                    new Limit("the tenth migration", Figures.median(tenths), first / Figures.median(tenths), tenths);
            out.printf(Locale.ROOT, "first to tenth: %.2f%n", limit.ratio());
            return Result.of("cold", settings(), machine(), firsts, limit, Map.of());
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
                    try (Bed bed = new Bed()) {
                        Path folder = bed.folder("multiplex");
                        TwoNodes nodes = bed.add(new TwoNodes(folder, link));
                        Services services = bed.add(new Services(
                                nodes,
                                folder,
                                options,
                                processes,
                                nodes.bin().resolve("cr_restart").toString()));
                        nodes.startJob(processes, all / processes);
                        Run run = services.migrate(processes + " proc");
                        print(run);
                        runs.add(run);
                        seconds.add(run.seconds());
                    }
                }
                details.put(processes + " processes, seconds", Figures.median(seconds));
            }
            return Result.of("multiplex", settings(), machine(), runs, null, details);
        }
    }

    @Command(name = "idle", description = "an idle pair of services over a minute", mixinStandardHelpOptions = true)
    static final class Idle extends ServiceCommand {
        private static final double TICK_SECONDS = 0.01;

        @Option(
                names = "--seconds",
                paramLabel = "N",
                defaultValue = "60",
                description = "how long it is watched (default: ${DEFAULT-VALUE})")
        private int seconds;

        @Override
        Result measure() throws Exception {
            List<Run> runs = new ArrayList<>();
            try (Bed bed = new Bed()) {
                Path folder = bed.folder("idle");
                TwoNodes nodes = bed.add(new TwoNodes(folder, link));
                Services services = bed.add(new Services(
                        nodes,
                        folder,
                        options,
                        1,
                        nodes.bin().resolve("cr_restart").toString()));
                for (int round = 0; round < options.runs; round++) {
                    Run run = watch(services);
                    runs.add(run);
                    out.printf(
                            Locale.ROOT,
                            "%.2f %% of a core, %.1f wake-ups a second, %d MiB resident at most%n",
                            run.cpuPercent(),
                            run.wakeupsPerSecond(),
                            run.peakRssBytes() >> 20);
                }
            }
            return Result.of("idle", settings(), machine(), runs, null, Map.of("seconds", seconds));
        }

        private Run watch(Services services) throws IOException, InterruptedException {
            List<ServiceProcess> both = List.of(services.source(), services.target());
            List<long[]> before = new ArrayList<>();
            for (ServiceProcess service : both) {
                before.add(figures(service.identity().pid()));
            }
            long startNs = System.nanoTime();
            // Nothing is waited for here but the time: nobody counts this latch down.
            if (new CountDownLatch(1).await(seconds, TimeUnit.SECONDS)) {
                throw new IllegalStateException("a latch that nobody has counts down");
            }
            double lasted = (System.nanoTime() - startNs) / 1e9;
            double cpu = 0;
            double wakeups = 0;
            long resident = 0;
            for (int i = 0; i < both.size(); i++) {
                long[] after = figures(both.get(i).identity().pid());
                cpu = Math.max(cpu, (after[0] - before.get(i)[0]) * TICK_SECONDS / lasted * 100);
                wakeups = Math.max(wakeups, (after[1] - before.get(i)[1]) / lasted);
                resident = Math.max(resident, after[2]);
            }
            return new Run(0, lasted, 0, null, resident, null, cpu, wakeups, null);
        }

        /** Processor ticks, voluntary context switches of all threads, peak of resident bytes. */
        private static long[] figures(int pid) throws IOException {
            Path process = Path.of("/proc", Integer.toString(pid));
            String stat = Files.readString(process.resolve("stat"));
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
            long switches = 0;
            try (DirectoryStream<Path> threads = Files.newDirectoryStream(process.resolve("task"))) {
                for (Path thread : threads) {
                    switches += field(thread.resolve("status"), "voluntary_ctxt_switches:");
                }
            }
            return new long[] {
                Long.parseLong(fields[11]) + Long.parseLong(fields[12]),
                switches,
                field(process.resolve("status"), "VmHWM:") * 1024
            };
        }

        private static long field(Path file, String name) throws IOException {
            for (String line : Files.readAllLines(file)) {
                if (line.startsWith(name)) {
                    return Long.parseLong(line.replaceAll("\\D", ""));
                }
            }
            return 0;
        }
    }
}
