package io.ppmr.system;

import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.TestNode;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Three nodes of their own PIDs, mounts, network and address, connected by a switch. A source is in the first and a
 * target in the second. CRIU moves the processes. Files select the actions of a job's hooks, and whether restarts fail.
 */
final class RingNodes implements AutoCloseable {
    static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    static final String LEAVING = "169.254.80.1";
    static final String SPARE = "169.254.80.2";
    static final String STAYING = "169.254.80.3";
    static final int RANKS = 4;
    static final int MOVED = 2;

    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final int PORT = 7411;

    private final Path directory;
    private final Deque<Closeable> belongings = new ArrayDeque<>();
    private TestNode leaving;
    private TestNode spare;
    private TestNode staying;

    RingNodes(Path directory) throws Exception {
        this.directory = directory;
        Files.createDirectories(job());
        try {
            makeNodes();
            startServices();
        } catch (Exception | AssertionError e) {
            close();
            throw e;
        }
    }

    /** Publishes a generation's map as a whole: a rank that waits for it must never read a part. */
    void publishMap(int generation, List<String> lines) throws IOException {
        Path next = Files.write(job().resolve("map.next"), lines);
        Files.move(next, job().resolve("map." + generation), StandardCopyOption.ATOMIC_MOVE);
    }

    private void makeNodes() throws Exception {
        TestNode hub = node("ring-switch");
        hub.run(LIMIT, "ip", "link", "add", "switch0", "type", "bridge");
        hub.run(LIMIT, "ip", "link", "set", "switch0", "up");
        leaving = plugged(hub, "node-a", LEAVING);
        spare = plugged(hub, "node-b", SPARE);
        staying = plugged(hub, "node-c", STAYING);
    }

    private TestNode node(String name) throws Exception {
        TestNode node = TestNode.create(name);
        belongings.push(node::close);
        return node;
    }

    private TestNode plugged(TestNode hub, String name, String address) throws Exception {
        TestNode node = node(name);
        String port = "to-" + name;
        TestNode.cable(hub, port, node, "cable0");
        hub.run(LIMIT, "ip", "link", "set", port, "master", "switch0", "up");
        node.raise("cable0", address + "/24");
        return node;
    }

    private void startServices() throws Exception {
        KeyFile.create(directory.resolve("key"));
        Path hook = script("hook.sh", Files.readString(HOME.resolve("ppmr-system-tests/src/test/sh/ring-hook.sh")));
        List<String> criu = CheckpointerConfig.criu(System.getenv());
        Path failing = script("criu-at-target", """
                #!/bin/sh
                # As CRIU, except for a restart where a file says that it is to fail: then once all originals are held.
                if [ "$1" = restore ] && [ -e %1$s/fail-restart ]; then
                    while [ ! -e %1$s/originals-are-held ]; do sleep 0.05; done
                    echo "this restart was to fail" >&2
                    exit 1
                fi
                exec %2$s "$@"
                """.formatted(directory, String.join(" ", criu)));
        ServiceProcess second = service(
                spare, List.of("target"), """
                listen = "%s:%d"
                allow_root_jobs = true
                [staging]
                directory = "/dev/shm"
                limit = "64m"
                """.formatted(SPARE, PORT), checkpointer(List.of(failing.toString())));
        ServiceProcess first = service(
                leaving,
                List.of("source", "--no-trigger"),
                "[target]\naddress = \"" + SPARE + ":" + PORT + '"',
                checkpointer(criu),
                """
                [jobs.ring]
                user = 0
                group = 0
                checkpointer = "criu"
                ranks = [%1$s]
                others = [%2$s]
                suspend = ["%3$s", "suspend", "%4$s"]
                resume = ["%3$s", "resume", "%4$s"]
                reconnect = ["%3$s", "reconnect", "%4$s"]
                hook_deadline = "3s"
                """.formatted(
                        IntStream.range(0, MOVED)
                                .mapToObj(rank -> "{rank = %d, pid_file = \"%s/pid-%d\"}".formatted(rank, job(), rank))
                                .collect(Collectors.joining(", ")),
                        IntStream.range(MOVED, RANKS)
                                .mapToObj(rank -> "{rank = %d, node = \"%s\"}".formatted(rank, STAYING))
                                .collect(Collectors.joining(", ")),
                        hook,
                        job()));
        second.awaitReady(LIMIT);
        first.awaitReady(LIMIT);
    }

    private static String checkpointer(List<String> program) {
        String words = program.stream().map(word -> '"' + word + '"').collect(Collectors.joining(", "));
        return """
                [checkpointers.criu]
                type = "criu"
                program = [%s]""".formatted(words);
    }

    private Path script(String name, String text) throws IOException {
        Path script = Files.writeString(directory.resolve(name), text);
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
        return script;
    }

    private ServiceProcess service(TestNode node, List<String> arguments, String... settings) throws Exception {
        String role = arguments.get(0);
        List<String> all = new ArrayList<>(List.of("""
                warm_up_migrations = 0
                key_file = "%1$s/key"
                control_socket = "%1$s/%2$s.sock"
                """.formatted(directory, role)));
        all.addAll(List.of(settings));
        ServiceProcess service = ServiceProcess.begin(
                node, ServiceProcess.java(), role, directory, arguments, all.toArray(String[]::new));
        belongings.push(service::close);
        return service;
    }

    /** The job's folder, for its map, its marks and its logs. */
    Path job() {
        return directory.resolve("job");
    }

    /** Sets the suspend hook's additional action. See ring-hook.sh. */
    void suspendHook(String word) throws IOException {
        Files.writeString(job().resolve("suspend-hook"), word);
    }

    /** Has restarts fail as soon as every original is held. */
    void failRestarts(boolean fail) throws IOException {
        Files.deleteIfExists(directory.resolve("originals-are-held"));
        Files.deleteIfExists(directory.resolve("fail-restart"));
        if (fail) {
            Files.createFile(directory.resolve("fail-restart"));
        }
    }

    /** Lets a restart that is to fail do so. */
    void originalsAreHeld() throws IOException {
        Files.createFile(directory.resolve("originals-are-held"));
    }

    /** Starts a rank as a job's own start does. Returns the process in this machine's namespace. */
    ProcessIdentity start(int rank, int size, String... more) throws Exception {
        List<String> words = new ArrayList<>(List.of(
                HOME.resolve("ppmr-system-tests/target/native-test/ring-job").toString(),
                "--rank",
                String.valueOf(rank),
                "--size",
                String.valueOf(size),
                "--port",
                "23400",
                "--dir",
                job().toString()));
        words.addAll(List.of(more));
        return (rank < MOVED ? leaving : staying).startDetached(job().resolve("pid-" + rank), words);
    }

    /** Returns the program of a process on the spare node, by the PID in its service's report. */
    String programOnSpare(int pid) {
        try {
            return spare.run(LIMIT, "readlink", "/proc/" + pid + "/exe");
        } catch (IOException e) {
            return e.getMessage();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return "unknown";
        }
    }

    /** Runs {@code ppmr restart} on the spare node. */
    PpmrCommand restartOnSpare(String copy) throws IOException, InterruptedException {
        return PpmrCommand.run(spare.command(PpmrCommand.words(
                "restart", copy, "--config", directory.resolve("target.toml").toString())));
    }

    ControlClient source() throws IOException {
        return new ControlClient(directory.resolve("source.sock"));
    }

    /** Moves the job to the end and returns the report. Notifies the observer of each step. */
    MigrationReport migrate(Optional<Path> keep, Runnable whenHeld) throws Exception {
        try (ControlClient client = source()) {
            client.start("ring", List.of(), keep, true);
            boolean[] told = new boolean[1];
            return client.awaitReport(LIMIT, progress -> {
                if (progress.step() == MigrationProgress.SourceStep.RESTART && !told[0]) {
                    told[0] = true;
                    whenHeld.run();
                }
            });
        }
    }

    String logs() throws IOException {
        return Files.readString(directory.resolve("source.log")) + Files.readString(directory.resolve("target.log"));
    }

    @Override
    public void close() throws IOException {
        IOException failure = null;
        while (!belongings.isEmpty()) {
            try {
                belongings.pop().close();
            } catch (IOException e) {
                failure = e;
            }
        }
        if (failure != null) {
            throw failure;
        }
    }
}
