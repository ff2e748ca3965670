package io.ppmr.bench;

import io.ppmr.testbed.SizeConverter;
import io.ppmr.testbed.Testbed;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * A command that measures and returns a result. This file has the commands of one stage, of all stages together, and of
 * limits.
 */
abstract class BenchCommand implements Callable<Integer> {
    private static final String STAYS = "none of its bytes cross the network";

    @Spec
    CommandSpec spec;

    @Mixin
    StageOptions options;

    PrintWriter out;
    private final String whyTcpAlone;

    /**
     * {@code whyTcpAlone} is the reason why RDMA would change nothing of it, or null if it can be measured over RDMA.
     */
    BenchCommand(String whyTcpAlone) {
        this.whyTcpAlone = whyTcpAlone;
    }

    abstract Result measure() throws Exception;

    @Override
    public Integer call() throws Exception {
        requireSense();
        out = spec.commandLine().getOut();
        Result result = measure();
        if (options.json != null) {
            result.write(options.json);
        }
        return 0;
    }

    void requireSense() throws Exception {
        options.requireSense(spec.name(), whyTcpAlone);
    }

    /** A command that measures the stage of its name. */
    @Command(mixinStandardHelpOptions = true)
    static class OfStage extends BenchCommand {
        OfStage(String whyTcpAlone) {
            super(whyTcpAlone);
        }

        long otherPoolBytes() {
            return 0;
        }

        @Override
        Result measure() throws Exception {
            try (Stage stage = new Stage(spec.name(), options, otherPoolBytes())) {
                return stage.measure(spec.name(), out);
            }
        }
    }

    /** The one of the stage that can have a second pair of services beside it. */
    static final class Pipeline extends OfStage {
        @Option(
                names = "--against-pool",
                paramLabel = "SIZE",
                defaultValue = "0",
                description = "measure a second pair of services with pools of this size in turn (default: none)")
        private String otherPool;

        Pipeline() {
            super(null);
        }

        @Override
        long otherPoolBytes() {
            return otherPool.equals("0") ? 0 : new SizeConverter().convert(otherPool);
        }
    }

    /** Adds the commands that measure one stage each, or all of them together. */
    static void addStages(CommandLine bench) {
        add(
                bench,
                "aggregation",
                new OfStage(STAYS),
                "FUSE writes of N processes into the source's pool; full chunks are discarded (Fig. 7)");
        add(
                bench,
                "transfer",
                new OfStage(null),
                "pool to pool, N threads offering chunks, discarded on arrival (Fig. 8a)");
        add(
                bench,
                "pipeline",
                new Pipeline(),
                "FUSE writes at the source to chunks in the target's pool (Fig. 8b, 8c)");
        add(bench, "restart", new OfStage(STAYS), "FUSE reads of N processes at the target out of arrived chunks");
        add(bench, "whole", new OfStage(null), "N processes write, N others read what comes out, at once");
    }

    private static void add(CommandLine bench, String name, OfStage command, String description) {
        CommandLine stage = new CommandLine(command);
        stage.getCommandSpec().usageMessage().description(description);
        bench.addSubcommand(name, stage);
    }

    /** Measures the most that this machine can do, without any program of ours. */
    @Command(
            name = "limits",
            description = "only the limits of this machine: copy, A, B, R, loopback, disk",
            mixinStandardHelpOptions = true)
    static final class Limits extends BenchCommand {
        Limits() {
            super("its B is that of TCP");
        }

        @Override
        Result measure() throws Exception {
            Map<String, Object> details = new LinkedHashMap<>();
            try (Testbed testbed = Testbed.create("bench")) {
                Map<String, List<Double>> figures = new LinkedHashMap<>();
                Map<String, Callable<Double>> limits = limits(testbed);
                for (int round = 0; round < options.runs; round++) {
                    for (Map.Entry<String, Callable<Double>> limit : limits.entrySet()) {
                        figures.computeIfAbsent(limit.getKey(), name -> new ArrayList<>())
                                .add(limit.getValue().call());
                    }
                }
                figures.forEach((name, runs) -> {
                    details.put(name, Result.median(runs));
                    out.printf(
                            Locale.ROOT,
                            "%-28s %8.0f MiB/s (%.0f to %.0f)%n",
                            name,
                            Result.median(runs),
                            Result.min(runs),
                            Result.max(runs));
                });
            }
            if (!Programs.present(Programs.IPERF)) {
                out.println("iperf3 is not installed: left out");
            }
            Result.Machine machine = Result.Machine.here(options.carrier().device());
            return Result.of(spec.name(), options.settings(), machine, List.of(), null, details);
        }

        private Map<String, Callable<Double>> limits(Testbed testbed) throws Exception {
            LimitFilesystem cycled = new LimitFilesystem(testbed, "limit-r", options, "--cycle");
            cycled.write();
            String file = testbed.folder("disk").resolve("bytes").toString();
            Map<String, Callable<Double>> all = new LinkedHashMap<>();
            all.put("copy, one thread", () -> Programs.limit(options, "copy", 1));
            all.put("copy, two threads", () -> Programs.limit(options, "copy", 2));
            all.put("A", new LimitFilesystem(testbed, "limit-a", options)::write);
            all.put("A with CRC", new LimitFilesystem(testbed, "limit-a-crc", options, "--crc")::write);
            all.put("B", options.carrier().limit());
            all.put("B without CRC", () -> Programs.limit(options, "net", options.connections));
            all.put("R", cycled::read);
            all.put("disk, past the page cache", () -> Programs.limit(options, "disk", 1, "--path", file));
            if (Programs.present(Programs.IPERF)) {
                all.put("loopback, iperf3", () -> Programs.iperf(List.of(), List.of(), "127.0.0.1", 1, 1));
            }
            return all;
        }
    }
}
