package io.ppmr.system;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/** A service as an operator runs it: a JVM of its own, with the flags of {@code conf/jvm.properties}. */
final class ServiceProcess implements AutoCloseable {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final long END_S = 15;
    private static final double TICK_MS = 10;
    private static final int FIELD_USER_TIME = 11;

    private final Process process;
    private final boolean inNode;
    private final Path mount;
    private final Path log;

    private ServiceProcess(Process process, boolean inNode, Path mount, Path log) {
        this.process = process;
        this.inNode = inNode;
        this.mount = mount;
        this.log = log;
    }

    /**
     * Starts a service and waits until it says that it is ready.
     *
     * @param role {@code source} or {@code target}
     * @param directory for its configuration, its log and its mount
     * @param settings lines of its configuration, behind those about mount and work directory
     */
    static ServiceProcess start(String role, Path directory, String... settings) throws Exception {
        return startIn(List.of(), role, role, directory, settings);
    }

    /**
     * Starts a service in a node of its own.
     *
     * @param node what stands before the words of a command that is to run there ({@link LoneNode#prefix})
     * @param name for its files, as two services of a role may share a directory
     */
    static ServiceProcess startIn(List<String> node, String role, String name, Path directory, String... settings)
            throws Exception {
        Path mount = directory.resolve(name + "-mount");
        List<String> lines = new ArrayList<>(List.of(
                "mount = '" + mount + "'",
                "work_directory = '" + directory.resolve(name + "-work") + "'",
                "journal = '" + directory.resolve(name + "-journal") + "'"));
        lines.addAll(List.of(settings));
        Path config = Files.write(directory.resolve(name + ".toml"), lines);
        Path log = directory.resolve(name + ".log");
        List<String> words = new ArrayList<>(node);
        words.addAll(command(role, "--config", config.toString()));
        ProcessBuilder builder =
                new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(log.toFile());
        builder.environment().put("_JAVA_SR_SIGNUM", flags().getProperty("_JAVA_SR_SIGNUM"));
        ServiceProcess service = new ServiceProcess(builder.start(), !node.isEmpty(), mount, log);
        try {
            Conditions.until("the " + name + " is ready", service::isReady);
            return service;
        } catch (Exception | AssertionError e) {
            service.close();
            throw new AssertionError("the " + name + " does not become ready: " + Files.readString(log), e);
        }
    }

    /** The program ppmr with these arguments. */
    static List<String> command(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(
                List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of(flags().getProperty("PPMR_JAVA_OPTIONS").strip().split("\\s+", -1)));
        Path cli = HOME.resolve("ppmr-cli/target");
        command.addAll(List.of(
                "-Dppmr.native.dir=" + HOME.resolve("ppmr-checkpoint/target/native"),
                "-cp",
                cli.resolve("classes") + ":" + cli.resolve("lib") + "/*",
                "io.ppmr.cli.Main"));
        command.addAll(List.of(arguments));
        return command;
    }

    private static Properties flags() throws IOException {
        Properties flags = new Properties();
        try (InputStream file = Files.newInputStream(HOME.resolve("conf/jvm.properties"))) {
            flags.load(file);
        }
        return flags;
    }

    private boolean isReady() throws IOException {
        if (!process.isAlive()) {
            throw new IOException("it has ended with status " + process.exitValue());
        }
        try (BufferedReader lines = Files.newBufferedReader(log, StandardCharsets.UTF_8)) {
            return lines.lines().anyMatch(line -> line.startsWith("ready"));
        }
    }

    /** Ends it as the kernel ends a process: it does nothing any more, and its mount is dead. */
    void kill() throws IOException {
        if (inNode) {
            // What was started is nsenter(1), which ends with the service.
            LoneNode.inside(process).ifPresent(ProcessHandle::destroyForcibly);
        } else {
            process.destroyForcibly();
        }
        if (!hasEnded(process)) {
            throw new IOException("a killed service has not ended");
        }
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /** Stops all its threads until {@link #thaw}; its connections stay up. */
    void freeze() throws IOException {
        signal("STOP");
    }

    void thaw() throws IOException {
        signal("CONT");
    }

    private void signal(String name) throws IOException {
        Process kill = new ProcessBuilder("kill", "-" + name, String.valueOf(process.pid())).start();
        if (!hasEnded(kill) || kill.exitValue() != 0) {
            throw new IOException("SIG" + name + " could not be sent to the service");
        }
    }

    /** What it has said since its last start. */
    String log() throws IOException {
        return Files.readString(log);
    }

    /** Processor time that it has used so far. */
    double cpuMs() throws IOException {
        String stat = Files.readString(Path.of("/proc", String.valueOf(process.pid()), "stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
        return (Long.parseLong(fields[FIELD_USER_TIME]) + Long.parseLong(fields[FIELD_USER_TIME + 1])) * TICK_MS;
    }

    /** How often its threads have gone to sleep and been woken. */
    long wakeUps() throws IOException {
        long sum = 0;
        try (var tasks = Files.newDirectoryStream(Path.of("/proc", String.valueOf(process.pid()), "task"))) {
            for (Path task : tasks) {
                sum += Files.readAllLines(task.resolve("status")).stream()
                        .filter(line -> line.startsWith("voluntary_ctxt_switches"))
                        .mapToLong(line -> Long.parseLong(line.split("\\s+", -1)[1]))
                        .sum();
            }
        }
        return sum;
    }

    @Override
    public void close() throws IOException {
        process.destroy();
        if (!hasEnded(process)) {
            process.destroyForcibly();
        }
        if (Files.readString(Path.of("/proc/self/mountinfo")).contains(" " + mount + " ")
                && !hasEnded(new ProcessBuilder("umount", "-l", mount.toString()).start())) {
            throw new IOException(mount + " could not be unmounted");
        }
    }

    private static boolean hasEnded(Process process) {
        try {
            return process.waitFor(END_S, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }
}
