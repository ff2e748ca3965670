package io.ppmr.bench;

import io.ppmr.bench.node.NodeMain;
import io.ppmr.bench.node.NodeSetting;
import io.ppmr.checkpoint.NativePrograms;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A measured JVM, started as the launcher starts a service, and told what to do line by line. Closed by its owner. */
final class NodeProcess implements Closeable {
    private static final double TICKS_A_SECOND = 100;
    private static final int UTIME = 11;
    private static final int STIME = 12;
    private static final long END_S = 15;

    private final String role;
    private final Path log;
    private final Process process;
    private final BufferedReader answers;
    private final PrintStream commands;

    private NodeProcess(String role, Path log, Process process) {
        this.role = role;
        this.log = log;
        this.process = process;
        answers = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        commands = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
    }

    /** Starts one, which is of use when it {@linkplain #awaitReady is ready}. */
    static NodeProcess start(NodeSetting setting) throws IOException {
        Path folder = Files.createDirectories(setting.mountPoint());
        List<String> words = new ArrayList<>();
        words.add(System.getenv().getOrDefault("PPMR_JAVA", System.getProperty("java.home") + "/bin/java"));
        String options = System.getenv("PPMR_JAVA_OPTIONS");
        words.addAll(
                options == null
                        ? ManagementFactory.getRuntimeMXBean().getInputArguments()
                        : List.of(options.strip().split("\\s+", -1)));
        String extra = System.getenv("PPMR_BENCH_NODE_OPTIONS");
        if (extra != null && !extra.isBlank()) {
            words.addAll(List.of(extra.strip().split("\\s+", -1)));
        }
        words.add("-Djava.library.path=" + System.getProperty("java.library.path"));
        words.add("-D" + NativePrograms.DIRECTORY_PROPERTY + "="
                + NativePrograms.fromSystemProperty().directory());
        words.add("-cp");
        words.add(System.getenv().getOrDefault("PPMR_CLASSPATH", System.getProperty("java.class.path")));
        words.add(NodeMain.class.getName());
        words.addAll(setting.words());
        Path log = folder.resolveSibling(folder.getFileName() + ".log");
        Process process = new ProcessBuilder(words).redirectError(log.toFile()).start();
        return new NodeProcess(setting.role(), log, process);
    }

    /** Waits until it is mounted and warm; called once. */
    NodeProcess awaitReady() throws BenchFailure, IOException {
        answer("start");
        return this;
    }

    /** Tells it something and gives its answer. */
    String ask(Object... words) throws BenchFailure, IOException {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.isEmpty() ? "" : " ").append(word);
        }
        commands.println(line);
        return answer(line.toString());
    }

    private String answer(String command) throws BenchFailure, IOException {
        String answer = answers.readLine();
        if (answer == null || !answer.startsWith("ok ")) {
            throw new BenchFailure("the " + role + " answers '" + command + "' with " + answer + "; its log:\n"
                    + Files.readString(log));
        }
        return answer.substring("ok ".length());
    }

    long pid() {
        return process.pid();
    }

    /** Processor time so far, of all its threads, in user space and kernel. */
    double cpuSeconds() throws IOException {
        String stat = Files.readString(Path.of("/proc", Long.toString(process.pid()), "stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
        return (Long.parseLong(fields[UTIME]) + Long.parseLong(fields[STIME])) / TICKS_A_SECOND;
    }

    long peakRssBytes() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc", Long.toString(process.pid()), "status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
            }
        }
        throw new IOException("no VmHWM of " + role);
    }

    long allocatedBytes() throws BenchFailure, IOException {
        return Long.parseLong(ask("allocated"));
    }

    @Override
    public void close() {
        commands.close();
        Programs.end(process, END_S);
    }
}
