package io.ppmr.bench;

import io.ppmr.bench.Run.Span;
import io.ppmr.testbed.Testbed;
import java.io.Closeable;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.ToDoubleFunction;

/**
 * A stage of the data path set up to be measured: runs of ours, and of the limit's parts. It is closed after the
 * measurement.
 */
final class Stage implements Closeable {
    /** Further figures for the result, from the medians of the limit's parts and of our runs. */
    private interface Details {
        void addTo(Map<String, Object> details, Map<String, Double> parts, double median) throws Exception;
    }

    private final StageOptions options;
    private final Testbed testbed;
    /** The limit's parts, in the order in which they are measured, each in MiB/s. */
    private final Map<String, Callable<Double>> parts = new LinkedHashMap<>();

    private Callable<Run> ours;
    private String limitName;
    private ToDoubleFunction<Map<String, Double>> limit;
    private Details details = (all, medians, median) -> {};

    /**
     * Sets one up.
     *
     * @param name aggregation, transfer, pipeline, restart or whole
     * @param otherPoolBytes pool of a second pair of services, for a pipeline that is measured in turn, or 0 for none
     */
    Stage(String name, StageOptions options, long otherPoolBytes) throws Exception {
        this.options = options;
        testbed = Testbed.create("bench");
        try {
            switch (name) {
                case "aggregation" -> aggregation();
                case "transfer" -> transfer();
                case "pipeline" -> pipeline(otherPoolBytes);
                case "restart" -> restart();
                case "whole" -> whole();
                default -> throw new IllegalArgumentException(name);
            }
        } catch (Exception e) {
            testbed.close();
            throw e;
        }
    }

    /** FUSE writes into the source's pool (Fig. 7), beside the filesystem in C for comparison. */
    private void aggregation() throws Exception {
        NodeProcess node = node("aggregation", "source");
        Path mountPoint = testbed.folder("source");
        LimitFilesystem withCrc = new LimitFilesystem(testbed, "limit-crc", options, "--crc");
        LimitFilesystem withoutCrc = new LimitFilesystem(testbed, "limit", options);
        NodeProcess binding = node("null", "binding");
        String names = testbed.folder("binding") + "/image-%d";
        parts.put("A with CRC", withCrc::write);
        parts.put("A", withoutCrc::write);
        parts.put("ours without CRC", () -> once(node, mountPoint, "write", "plain").mibPerSecond);
        ours = () -> once(node, mountPoint, "write", "crc");
        limitName = "filesystem in C with CRC32C";
        limit = figures -> figures.get("A with CRC");
        details = (all, medians, median) -> {
            // A mount whose calls do nothing shows the cost of jnr-fuse and libfuse's structures for each call.
            Programs.clients(options, "write", names);
            Run calls = NodeProcess.measure(
                    List.of(binding),
                    options.allBytes() / StageOptions.BLOCK_BYTES,
                    () -> Programs.clients(options, "write", names));
            all.put("bytes allocated for each call by the binding alone", calls.allocatedBytesPerChunk);
            all.put("gain without CRC", medians.get("ours without CRC") / median - 1);
        };
    }

    /**
     * Pool to pool (Fig. 8a), beside a sender and a receiver in C, or with RDMA beside ib_read_bw(1) or
     * ib_write_bw(1).
     */
    private void transfer() throws Exception {
        Pair pair = new Pair(testbed, options, "offer", options.poolBytes, "");
        parts.put("B", options.carrier().limit());
        // These measurements compute no CRC.
        if (options.transport.equals(StageOptions.TCP)) {
            parts.put("B without CRC", () -> Programs.limit(options, "net", options.connections));
            if (Programs.present(Programs.IPERF)) {
                parts.put(
                        Programs.IPERF,
                        () -> Programs.iperf(List.of(), List.of(), "127.0.0.1", 1, options.connections));
            }
        }
        ours = pair::offer;
        limitName = options.carrier().limitName();
        limit = figures -> figures.get("B");
    }

    /** FUSE writes to chunks in the target's pool (Fig. 8b, 8c), beside what its two stages can do in C. */
    private void pipeline(long otherPoolBytes) throws Exception {
        Pair pair = new Pair(testbed, options, "source", options.poolBytes, "");
        Pair other = otherPoolBytes == 0 ? null : new Pair(testbed, options, "source", otherPoolBytes, "-other");
        parts.put("A", new LimitFilesystem(testbed, "limit", options)::write);
        parts.put("B", options.carrier().limit());
        if (other != null) {
            parts.put("ours with the other pool", () -> other.write().mibPerSecond);
        }
        ours = pair::write;
        limitInSeries("A", "B");
        details = (all, medians, median) -> {
            double apart = Math.min(medians.get("A"), medians.get("B"));
            all.put("min(A,B)", apart);
            all.put("ratio to min(A,B)", median / apart);
            if (other != null) {
                all.put("other pool, bytes", otherPoolBytes);
                all.put("ratio to the other pool", median / medians.get("ours with the other pool"));
            }
        };
    }

    /** FUSE reads out of arrived chunks, beside the filesystem in C that reads out of such a pool. */
    private void restart() throws Exception {
        NodeProcess node = node("restart", "target");
        Path mountPoint = testbed.folder("target");
        parts.put("R", cycled("limit")::read);
        ours = () -> once(node, mountPoint, "read", options.bytesAWriter);
        limitName = "filesystem in C";
        limit = figures -> figures.get("R");
    }

    /** Writing, pulling and reading at once, beside the limit of the three stages in C. */
    private void whole() throws Exception {
        Pair pair = new Pair(testbed, options, "source", options.poolBytes, "");
        parts.put("A", new LimitFilesystem(testbed, "limit-a", options)::write);
        parts.put("B", options.carrier().limit());
        parts.put("R", cycled("limit-r")::read);
        ours = pair::writeAndRead;
        limitInSeries("A", "B", "R");
    }

    /** Sets the limit of stages that share processors and follow one another. */
    private void limitInSeries(String... stages) {
        List<String> names = List.of(stages);
        limitName = "1/(1/" + String.join("+1/", names) + "), B: "
                + options.carrier().limitName();
        limit = figures ->
                1 / names.stream().mapToDouble(name -> 1 / figures.get(name)).sum();
    }

    private NodeProcess node(String role, String name) throws IOException {
        return new NodeProcess(testbed, role, name, options, options.poolBytes).awaitReady();
    }

    /** A filesystem that can be read, because it was written before. */
    private LimitFilesystem cycled(String name) throws Exception {
        LimitFilesystem filesystem = new LimitFilesystem(testbed, name, options, "--cycle");
        filesystem.write();
        return filesystem;
    }

    /** Runs a process that is a stage of its own once. */
    private Run once(NodeProcess node, Path mountPoint, String what, Object how) throws Exception {
        String directory = node.ask("begin", options.writers, how);
        String images = mountPoint.resolve(directory) + "/rank-%d/image";
        Run run =
                NodeProcess.measure(List.of(node), options.allChunks(), () -> Programs.clients(options, what, images));
        node.ask("end");
        return run;
    }

    /** Runs our side once. */
    Run run() throws Exception {
        return ours.call();
    }

    /** Measures: limit, run, run, limit, and so on, after one unmeasured round of both. */
    Result measure(String name, PrintWriter out) throws Exception {
        Map<String, List<Double>> figures = new LinkedHashMap<>();
        for (Map.Entry<String, Callable<Double>> part : parts.entrySet()) {
            part.getValue().call();
            figures.put(part.getKey(), new ArrayList<>());
        }
        run();
        List<Run> runs = new ArrayList<>();
        List<Double> limits = new ArrayList<>();
        for (int round = 0; round < options.runs; round++) {
            if (round % 2 == 1) {
                runs.add(run());
            }
            Map<String, Double> now = new LinkedHashMap<>();
            for (Map.Entry<String, Callable<Double>> part : parts.entrySet()) {
                now.put(part.getKey(), part.getValue().call());
                figures.get(part.getKey()).add(now.get(part.getKey()));
            }
            if (round % 2 == 0) {
                runs.add(run());
            }
            limits.add(limit.applyAsDouble(now));
            print(out, round, runs.get(round), now, limits.get(round));
        }
        Map<String, Double> medians = new LinkedHashMap<>();
        figures.forEach((part, ofPart) -> medians.put(part, Result.median(ofPart)));
        double median = Result.median(runs.stream().map(run -> run.mibPerSecond).toList());
        double atMost = limit.applyAsDouble(medians);
        Map<String, Object> all = new LinkedHashMap<>(medians);
        details.addTo(all, medians, median);
        Result result = Result.of(
                name,
                options.settings(),
                Result.Machine.here(options.carrier().device()),
                runs,
                new Result.Limit(limitName, atMost, median / atMost, limits),
                all);
        summarise(out, result);
        return result;
    }

    private static void print(PrintWriter out, int round, Run run, Map<String, Double> parts, double limit) {
        out.printf(
                Locale.ROOT,
                "%2d  %7.0f MiB/s  cpu %5.2f s  rss %4d MiB  a chunk: %6.0f B, %5.2f wakings, %5.2f calls  limit %7.0f",
                round + 1,
                run.mibPerSecond,
                run.serviceCpuSeconds,
                run.peakRssBytes >> 20,
                run.allocatedBytesPerChunk,
                run.wakingsPerChunk,
                run.callsPerChunk,
                limit);
        if (parts.size() > 1) {
            parts.forEach((part, figure) -> out.printf(Locale.ROOT, "  %s %.0f", part, figure));
        }
        out.println();
    }

    private static void summarise(PrintWriter out, Result result) {
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

    @Override
    public void close() throws IOException {
        testbed.close();
    }

    /** A source and a target in processes of their own, joined again for each run. */
    private static final class Pair {
        private final StageOptions options;
        private final NodeProcess source;
        private final NodeProcess target;
        private final Path sourceMount;
        private final Path targetMount;

        /** Starts both. {@code sourceRole}: source, with a mount, or offer, without. */
        Pair(Testbed testbed, StageOptions options, String sourceRole, long poolBytes, String suffix)
                throws IOException {
            this.options = options;
            sourceMount = testbed.folder("source" + suffix);
            targetMount = testbed.folder("target" + suffix);
            source = new NodeProcess(testbed, sourceRole, "source" + suffix, options, poolBytes);
            if (options.warmsUp()) {
                // The nodes start one after the other, because two warm-ups at once would compete for the processors.
                source.awaitReady();
            }
            target = new NodeProcess(testbed, "target", "target" + suffix, options, poolBytes).awaitReady();
            if (!options.warmsUp()) {
                source.awaitReady();
            }
        }

        /**
         * Work that is done once both are connected. Each one's images are below the directory of this name in its
         * mount.
         */
        private interface Work {
            Span in(String directory) throws Exception;
        }

        private Run joined(Work work) throws Exception {
            String where = target.ask("begin", options.writers, options.connections);
            String[] directoryAndProof = source.ask("begin", options.writers, options.connections, where)
                    .split(" ", 2);
            String writable = target.ask("join", directoryAndProof[1]);
            if (!writable.isEmpty()) {
                source.ask("mayWrite", writable);
            }
            Run run = NodeProcess.measure(
                    List.of(source, target), options.allChunks(), () -> work.in(directoryAndProof[0]));
            source.ask("end");
            target.ask("end");
            return run;
        }

        private static String images(Path mount, String directory) {
            return mount.resolve(directory) + "/rank-%d/image";
        }

        /** Threads at the source offer chunks. */
        Run offer() throws Exception {
            return joined(directory -> {
                String[] times = source.ask("offer", options.bytesAWriter).split(" ", -1);
                return new Span(options.allBytes(), Long.parseLong(times[0]), Long.parseLong(times[1]));
            });
        }

        /** Processes write into the source's mount. Arriving chunks are dropped, because their names are gone. */
        Run write() throws Exception {
            return joined(directory ->
                    Programs.clients(options, "write", images(sourceMount, directory), "--unlink", "--fsync"));
        }

        /** Processes write into the source's mount, and others read out of the target's at the same time. */
        Run writeAndRead() throws Exception {
            return joined(directory -> {
                Process readers = Programs.startClients(options, "read", images(targetMount, directory));
                try {
                    Span written = Programs.clients(options, "write", images(sourceMount, directory));
                    source.ask("endranks");
                    Span read = Programs.await(readers);
                    return new Span(written.bytes(), written.startNs(), read.endNs());
                } finally {
                    readers.destroyForcibly();
                }
            });
        }
    }
}
