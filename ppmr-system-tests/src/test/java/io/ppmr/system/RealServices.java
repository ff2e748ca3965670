package io.ppmr.system;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.linux.Command;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ProcessFigures;
import io.ppmr.testbed.ServiceProcess;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** A source and a target as an operator runs them: a JVM each, with the shared flags, configured by files. */
final class RealServices implements AutoCloseable {
    private static final Duration READY_LIMIT = Patience.of(Duration.ofSeconds(60));

    private final Path directory;
    private final int port;
    private final List<String> javaOptions = new ArrayList<>();
    private int warmUpMigrations;
    private String sourceSections = "";
    private String targetSections = "";
    private final List<Long> copies = new ArrayList<>();
    private final Deque<ServiceProcess> services = new ArrayDeque<>();

    RealServices(Path directory) throws IOException {
        this.directory = directory;
        port = Nodes.unusedAddress().getPort();
        KeyFile.create(directory.resolve("key"));
    }

    /** Adds an option to the JVMs that are started from now on. */
    RealServices javaOption(String option) {
        javaOptions.add(option);
        return this;
    }

    /** Sets the number of warm-up migrations for services that are started from now on, if there is time. */
    RealServices warmUpMigrations(int migrations) {
        warmUpMigrations = migrations;
        return this;
    }

    /** Adds sections to the configurations that are written from now on. */
    RealServices sections(String toSource, String toTarget) {
        sourceSections = toSource;
        targetSections = toTarget;
        return this;
    }

    Process startTarget(ReplayJob job) throws Exception {
        return start("target", """
            unknown_users = true
            listen = "127.0.0.1:%d"
            stall_limit = "20s"
            [staging]
            limit = "64m"
            """.formatted(port), job.toml(), targetSections);
    }

    Process startSource(ReplayJob job) throws Exception {
        return start("source", """
            [target]
            address = "127.0.0.1:%d"
            """.formatted(port), job.toml(), job.jobToml(), sourceSections);
    }

    /**
     * Starts a source with a configuration of its own.
     *
     * @param settings lines before the first section
     * @param sections what follows, the address of a target too
     */
    Process startSource(String settings, String... sections) throws Exception {
        List<String> all = new ArrayList<>(List.of(settings));
        all.addAll(List.of(sections));
        return start("source", all.toArray(String[]::new));
    }

    private Process start(String role, String... sections) throws Exception {
        List<String> settings = new ArrayList<>(List.of("""
                key_file = "%1$s/key"
                control_socket = "%1$s/%2$s.sock"
                warm_up_migrations = %3$d
                """.formatted(directory, role, warmUpMigrations)));
        settings.addAll(List.of(sections));
        ServiceProcess service =
                ServiceProcess.begin(null, java(), role, directory, List.of(role), settings.toArray(String[]::new));
        services.push(service);
        service.awaitReady(READY_LIMIT);
        return service.process();
    }

    /** Runs {@code ppmr migrate} to its end and returns its exit code. Writes its report to a file. */
    int migrate(Path json, String... job) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of(
                "migrate", "--socket", directory.resolve("source.sock").toString(), "--report", json.toString()));
        words.addAll(List.of(job));
        Command.CommandResult result = run("migrate", words, Duration.ofMinutes(5));
        if (Files.exists(json)) {
            new ObjectMapper()
                    .readTree(json.toFile())
                    .findValues("pids")
                    .forEach(pids -> pids.forEach(pid -> copies.add(pid.asLong())));
        }
        return result.exitCode();
    }

    /**
     * Runs {@code ppmr doctor} with a service's configuration against the target. Returns its exit code and its output.
     */
    String doctor(String role, String... more) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of("--peer", "127.0.0.1:" + port));
        words.addAll(List.of(more));
        return command("doctor", role, words);
    }

    /** Runs a command with a service's configuration. Returns its exit code and its output. */
    String command(String command, String role, List<String> more) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(
                List.of(command, "--config", directory.resolve(role + ".toml").toString()));
        words.addAll(more);
        Command.CommandResult result = run(command, words, Duration.ofMinutes(1));
        return result.exitCode() + "\n" + result.output();
    }

    private Command.CommandResult run(String command, List<String> words, Duration limit)
            throws IOException, InterruptedException {
        Command.CommandResult result = Command.of(java().with(words)).run(limit);
        Files.writeString(directory.resolve(command + ".log"), result.output());
        return result;
    }

    /** Returns the target's port. */
    int port() {
        return port;
    }

    /** Sets the key of those services for these. */
    RealServices keyOf(RealServices others) throws IOException {
        Files.copy(
                others.directory.resolve("key"),
                directory.resolve("key"),
                StandardCopyOption.REPLACE_EXISTING,
                StandardCopyOption.COPY_ATTRIBUTES);
        return this;
    }

    /** The control socket of a service. */
    Path socket(String role) {
        return directory.resolve(role + ".sock");
    }

    Path mount(String role) {
        return directory.resolve(role + "-mount");
    }

    String log(String name) throws IOException {
        return Files.readString(directory.resolve(name + ".log"), StandardCharsets.UTF_8);
    }

    /** Peak resident memory of a service, from proc(5). */
    static long peakResidentBytes(Process process) throws IOException {
        return ProcessFigures.of(process.pid()).peakRssBytes();
    }

    /** Processor time that a service has used, in clock ticks of 10 ms. */
    static long cpuTicks(Process process) throws IOException {
        return Math.round(ProcessFigures.of(process.pid()).cpuSeconds() * 100);
    }

    private JavaCommand java() {
        List<String> words = new ArrayList<>(ServiceProcess.java().words());
        words.addAll(1, javaOptions);
        return new JavaCommand(words);
    }

    @Override
    public void close() throws IOException {
        try {
            while (!services.isEmpty()) {
                services.pop().close();
            }
        } finally {
            copies.forEach(pid -> ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly));
        }
    }
}
