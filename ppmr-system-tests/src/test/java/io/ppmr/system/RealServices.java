package io.ppmr.system;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.cli.demo.JavaCommand;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A source and a target as an operator runs them: a JVM each, with the shared flags, configured by files. */
final class RealServices implements AutoCloseable {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path NATIVE = HOME.resolve("ppmr-checkpoint/target/native");
    private static final long READY_NS = TimeUnit.SECONDS.toNanos(60);
    private static final long POLL_NS = TimeUnit.MILLISECONDS.toNanos(20);

    private final Path directory;
    private final int port;
    private final List<String> javaOptions = new ArrayList<>();
    private String sourceSections = "";
    private String targetSections = "";
    private final List<Long> copies = new ArrayList<>();
    private Process source;
    private Process target;

    RealServices(Path directory) throws IOException {
        this.directory = directory;
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = free.getLocalPort();
        }
        Path key = directory.resolve("key");
        Files.createFile(key, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        Files.writeString(key, "a key that only this test knows, longer than 32 bytes\n");
    }

    /** Adds an option to the JVMs that are started from now on. */
    RealServices javaOption(String option) {
        javaOptions.add(option);
        return this;
    }

    /** Adds sections to the configurations that are written from now on. */
    RealServices sections(String toSource, String toTarget) {
        sourceSections = toSource;
        targetSections = toTarget;
        return this;
    }

    Process startTarget(ReplayJob job) throws IOException {
        Path config = directory.resolve("target.toml");
        Files.writeString(config, """
                mount = "%1$s/target"
                work_directory = "%1$s/target-work"
                journal = "%1$s/target-journal"
                control_socket = "%1$s/target.sock"
                listen = "127.0.0.1:%2$d"
                key_file = "%1$s/key"
                rehearsals = 1
                stall_limit = "20s"
                [staging]
                limit = "64m"
                %3$s%4$s""".formatted(directory, port, job.toml(), targetSections));
        target = start("target", config);
        return target;
    }

    Process startSource(ReplayJob job) throws IOException {
        Path config = directory.resolve("source.toml");
        Files.writeString(config, """
                mount = "%1$s/source"
                work_directory = "%1$s/source-work"
                journal = "%1$s/source-journal"
                control_socket = "%1$s/source.sock"
                key_file = "%1$s/key"
                rehearsals = 1
                [target]
                address = "127.0.0.1:%2$d"
                %3$s%4$s%5$s""".formatted(directory, port, job.toml(), job.jobToml(), sourceSections));
        source = start("source", config);
        return source;
    }

    /** Runs {@code ppmr migrate} to its end and gives its exit code; its report goes to a file. */
    int migrate(Path json, String... job) throws IOException, InterruptedException {
        List<String> arguments = new ArrayList<>(
                List.of("migrate", "--socket", directory.resolve("source.sock").toString(), "--json", json.toString()));
        arguments.addAll(List.of(job));
        Process process = new ProcessBuilder(java().with(arguments))
                .redirectErrorStream(true)
                .redirectOutput(directory.resolve("migrate.log").toFile())
                .start();
        if (!process.waitFor(300, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new IOException("ppmr migrate has not ended: " + log("migrate"));
        }
        if (Files.exists(json)) {
            new ObjectMapper()
                    .readTree(json.toFile())
                    .findValues("pids")
                    .forEach(pids -> pids.forEach(pid -> copies.add(pid.asLong())));
        }
        return process.exitValue();
    }

    /** Runs {@code ppmr doctor} with a service's configuration against the target; its exit code, then its output. */
    String doctor(String role, String... more) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of("--peer", "127.0.0.1:" + port));
        words.addAll(List.of(more));
        return command("doctor", role, words);
    }

    /** Runs a command with a service's configuration; its exit code, then its output. */
    String command(String command, String role, List<String> more) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(
                List.of(command, "--config", directory.resolve(role + ".toml").toString()));
        words.addAll(more);
        ProcessBuilder builder = new ProcessBuilder(java().with(words));
        builder.environment().put("_JAVA_SR_SIGNUM", "40");
        Process process = builder.redirectErrorStream(true)
                .redirectOutput(directory.resolve(command + ".log").toFile())
                .start();
        if (!process.waitFor(60, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new IOException("ppmr " + command + " has not ended: " + log(command));
        }
        return process.exitValue() + "\n" + log(command);
    }

    /** Where the target listens. */
    int port() {
        return port;
    }

    Path mount(String role) {
        return directory.resolve(role);
    }

    String log(String name) throws IOException {
        return Files.readString(directory.resolve(name + ".log"), StandardCharsets.UTF_8);
    }

    /** Peak resident memory of a service, from proc(5). */
    static long peakResidentBytes(Process process) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc", String.valueOf(process.pid()), "status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
            }
        }
        throw new IOException("no VmHWM of " + process.pid());
    }

    /** Processor time that a service has used, in clock ticks of 10 ms. */
    static long cpuTicks(Process process) throws IOException {
        String stat = Files.readString(Path.of("/proc", String.valueOf(process.pid()), "stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
        return Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
    }

    private JavaCommand java() throws IOException {
        Properties flags = new Properties();
        try (var in = Files.newInputStream(HOME.resolve("conf/jvm.properties"))) {
            flags.load(in);
        }
        List<String> words = new ArrayList<>();
        words.add(System.getProperty("java.home") + "/bin/java");
        words.addAll(Arrays.asList(flags.getProperty("PPMR_JAVA_OPTIONS").trim().split("\\s+", -1)));
        words.addAll(javaOptions);
        words.addAll(List.of(
                "-Dppmr.native.dir=" + NATIVE, "-cp", System.getProperty("java.class.path"), "io.ppmr.cli.Main"));
        return new JavaCommand(words);
    }

    private Process start(String role, Path config) throws IOException {
        Path out = directory.resolve(role + ".out");
        Files.deleteIfExists(out);
        ProcessBuilder builder = new ProcessBuilder(java().with(List.of(role, "--config", config.toString())));
        builder.environment().put("_JAVA_SR_SIGNUM", "40");
        Process process = builder.redirectOutput(out.toFile())
                .redirectError(directory.resolve(role + ".log").toFile())
                .start();
        long deadlineNs = System.nanoTime() + READY_NS;
        while (!Files.readString(out).contains("ready")) {
            if (!process.isAlive() || System.nanoTime() - deadlineNs > 0) {
                process.destroyForcibly();
                throw new IOException(role + " does not become ready: " + log(role));
            }
            LockSupport.parkNanos(POLL_NS);
        }
        return process;
    }

    @Override
    public void close() {
        for (Process process : Arrays.asList(source, target)) {
            if (process != null) {
                process.destroy();
            }
        }
        for (Process process : Arrays.asList(source, target)) {
            try {
                if (process != null && !process.waitFor(15, TimeUnit.SECONDS)) {
                    process.destroyForcibly();
                }
            } catch (InterruptedException e) {
                process.destroyForcibly();
                Thread.currentThread().interrupt();
            }
        }
        copies.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
    }
}
