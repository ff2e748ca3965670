package io.ppmr.bench;

import io.ppmr.bench.Run.Span;
import io.ppmr.bench.node.NodeMain;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.testbed.ProcessFigures;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;

/** A measured JVM, started as the launcher starts a service. It receives commands line by line. Its owner closes it. */
final class NodeProcess implements Closeable {
    private static final long END_S = 15;

    private final String role;
    private final Path log;
    private final Process process;
    private final BufferedReader answers;
    private final PrintStream commands;

    /**
     * Starts one, which is of use when it {@linkplain #awaitReady is ready}.
     *
     * @param name of the folder in which it mounts
     */
    NodeProcess(Testbed testbed, String role, String name, StageOptions options, long poolBytes) throws IOException {
        this.role = role;
        Path mountPoint = testbed.folder(name);
        log = mountPoint.resolveSibling(name + ".log");
        List<String> words = new ArrayList<>(ServiceProcess.java().words());
        words.remove(words.size() - 1);
        // The services' class path, which the environment may name, has no benchmarks in it.
        words.set(words.indexOf("-cp") + 1, System.getProperty("java.class.path"));
        words.add(1, "-Djava.library.path=" + System.getProperty("java.library.path"));
        String extra =
                System.getenv().getOrDefault("PPMR_BENCH_NODE_OPTIONS", "").strip();
        if (!extra.isEmpty()) {
            words.addAll(1, List.of(extra.split("\\s+", -1)));
        }
        words.add(NodeMain.class.getName());
        words.addAll(new NodeMain.Setting(
                        role,
                        mountPoint,
                        PoolGeometry.of(poolBytes, Math.toIntExact(options.chunkBytes)),
                        options.warmsUp(),
                        options.carrier().targetWords())
                .words());
        process = new ProcessBuilder(words).redirectError(log.toFile()).start();
        answers = process.inputReader(StandardCharsets.UTF_8);
        commands = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
        testbed.add(this);
    }

    /** Waits until it is mounted and warm. Called once. */
    NodeProcess awaitReady() throws IOException {
        answer("start");
        return this;
    }

    /** Sends it a command and returns its answer. */
    String ask(Object... words) throws IOException {
        String line = Arrays.stream(words).map(String::valueOf).collect(Collectors.joining(" "));
        commands.println(line);
        return answer(line);
    }

    private String answer(String command) throws IOException {
        String answer = answers.readLine();
        if (answer == null || !answer.startsWith("ok ")) {
            throw new IOException("the " + role + " answers '" + command + "' with " + answer + "; its log:\n"
                    + Files.readString(log));
        }
        return answer.substring("ok ".length());
    }

    /** Does something with these processes and reads what it cost them together. */
    static Run measure(List<NodeProcess> nodes, long chunks, Callable<Span> work) throws Exception {
        double allocatedBytes = -allocatedBytes(nodes);
        double cpuSeconds = 0;
        double wakings = 0;
        double calls = 0;
        for (NodeProcess node : nodes) {
            ProcessFigures before = ProcessFigures.of(node.process.pid());
            cpuSeconds -= before.cpuSeconds();
            wakings -= before.wakeUps();
            calls -= before.ioCalls();
        }
        Span span = work.call();
        long peakRssBytes = 0;
        for (NodeProcess node : nodes) {
            ProcessFigures after = ProcessFigures.of(node.process.pid());
            cpuSeconds += after.cpuSeconds();
            wakings += after.wakeUps();
            calls += after.ioCalls();
            peakRssBytes = Math.max(peakRssBytes, after.peakRssBytes());
        }
        allocatedBytes += allocatedBytes(nodes);
        Run run = new Run(span.bytes(), span.seconds());
        run.serviceCpuSeconds = cpuSeconds;
        run.peakRssBytes = peakRssBytes;
        run.allocatedBytesPerChunk = allocatedBytes / chunks;
        run.wakingsPerChunk = wakings / chunks;
        run.callsPerChunk = calls / chunks;
        return run;
    }

    private static long allocatedBytes(List<NodeProcess> nodes) throws IOException {
        long sum = 0;
        for (NodeProcess node : nodes) {
            sum += Long.parseLong(node.ask("allocated"));
        }
        return sum;
    }

    @Override
    public void close() {
        commands.close();
        Programs.end(process, END_S);
    }
}
