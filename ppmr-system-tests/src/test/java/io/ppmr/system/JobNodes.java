package io.ppmr.system;

import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.NodeSystemd;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Assumptions;

/**
 * Two nodes with a service in each, for jobs of an ordinary user that real CRIU moves from the first to the second. The
 * options of the services can be set before. One folder is shared by both nodes. It is for one thread.
 */
final class JobNodes implements AutoCloseable {
    static final int USER = 20001;
    static final String ADDRESS_A = "10.99.7.1";
    static final String ADDRESS_B = "10.99.7.2";
    static final int PORT = 7411;

    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    /** The number covers features that are checked only each tenth or 25th turn. */
    private static final int TURNS = 26;

    private final Testbed testbed;
    private final TestNode a;
    private final TestNode b;
    private List<String> java = ServiceProcess.java().words();
    private List<String> beforeTarget = List.of();
    private int warmUpMigrations;
    private String address = ADDRESS_B + ":" + PORT;
    private String listen = address;
    private String sourceName = "source";
    private String targetName = "target";
    private Path base;
    private ServiceProcess source;
    private ServiceProcess target;
    private int jobs;
    private Path bin;

    /** Skips the caller's tests, with the reason, where no job can be moved. */
    static void assumePossible() throws IOException {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: nodes are namespaces");
        Assumptions.assumeTrue(Files.exists(Path.of("/dev/fuse")), "needs /dev/fuse");
        Assumptions.assumeTrue(!System.getenv().getOrDefault("PPMR_CRIU", "").isBlank(), "needs CRIU (./ppmr setup)");
    }

    JobNodes(String purpose) throws Exception {
        this(purpose, false);
    }

    private JobNodes(String purpose, boolean hasSystemd) throws Exception {
        testbed = Testbed.create(purpose);
        base = testbed.folder();
        try {
            KeyFile.create(testbed.folder().resolve("key"));
            Files.createDirectory(testbed.folder().resolve("jobs"));
            a = node(purpose + "-a", hasSystemd);
            b = node(purpose + "-b", hasSystemd);
            TestNode.connect(a, ADDRESS_A, b, ADDRESS_B);
        } catch (Exception e) {
            testbed.close();
            throw e;
        }
    }

    private TestNode node(String name, boolean hasSystemd) throws Exception {
        if (!hasSystemd) {
            return testbed.add(TestNode.create(name));
        }
        NodeSystemd systemd = new NodeSystemd(testbed, name);
        TestNode node = testbed.add(TestNode.create(name));
        systemd.boot(node);
        return node;
    }

    /** Makes nodes with a systemd each, which starts the services with the limits of their units. */
    static JobNodes underSystemd(String purpose) throws Exception {
        return new JobNodes(purpose, true);
    }

    /** Has the services warm themselves up by some migrations. */
    JobNodes warmedUp(int migrations) {
        warmUpMigrations = migrations;
        return this;
    }

    TestNode a() {
        return a;
    }

    TestNode b() {
        return b;
    }

    /** A folder that both nodes see, in which the services have their files. */
    Path folder() {
        return testbed.folder();
    }

    /** Has the services started by words before their command, such as a shell that sets something first. */
    JobNodes startedBy(String... words) {
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(java);
        java = List.copyOf(all);
        return this;
    }

    /** Has the target alone started by words before its command. */
    JobNodes targetStartedBy(String... words) {
        beforeTarget = List.of(words);
        return this;
    }

    /** Has the services started by another program than the JVM of the tests. */
    JobNodes launchedBy(List<String> words) {
        java = List.copyOf(words);
        return this;
    }

    /** Sets the target's address in the source's configuration, and another address at which the target listens. */
    JobNodes at(String targetsAddress, String listensAt) {
        address = targetsAddress;
        listen = listensAt;
        return this;
    }

    /** Sets other names of the services, which are part of their mounts, journals and work directories. */
    JobNodes named(String sources, String targets) {
        sourceName = sources;
        targetName = targets;
        return this;
    }

    /** Sets a new folder, below the given one, for the services' files. */
    JobNodes keptIn(Path folder) {
        base = folder;
        return this;
    }

    /** Adds a job "own", which BLCR's stand-ins move. Their commands run as the job's user. */
    JobNodes blcr() throws IOException {
        bin = testbed.programs();
        return this;
    }

    /** Starts both services. */
    JobNodes start() throws Exception {
        beginTarget();
        startSource();
        awaitAnswer("target", target);
        return this;
    }

    void startTarget() throws Exception {
        beginTarget();
        awaitAnswer("target", target);
    }

    private void beginTarget() throws Exception {
        target = begin(b, "target", targetName, key(), """
                listen = "%s"
                unknown_users = true
                """.formatted(listen), """
                [staging]
                limit = "256m"
                """);
    }

    void startSource() throws Exception {
        startSource(key());
    }

    /** @param key its key file */
    void startSource(Path key) throws Exception {
        source = begin(
                a,
                "source",
                sourceName,
                key,
                "",
                """
                [target]
                address = "%1$s"
                [jobs.one]
                user = %2$d
                group = %2$d
                checkpointer = "criu"
                ranks = [{rank = 0, pid_file = "%3$s/current/pid"}]
                [jobs.two]
                user = %2$d
                group = %2$d
                checkpointer = "criu"
                ranks = [{rank = 0, pid_file = "%3$s/current/pid"}, {rank = 1, pid_file = "%3$s/current/pid.1"}]
                """.formatted(address, USER, testbed.folder())
                        + (bin == null ? "" : """
                [jobs.own]
                user = %1$d
                group = %1$d
                checkpointer = "blcr"
                ranks = [{rank = 0, pid_file = "%2$s/current/pid"}]
                """.formatted(USER, testbed.folder())));
        awaitAnswer("source", source);
    }

    private Path key() {
        return testbed.folder().resolve("key");
    }

    private ServiceProcess begin(TestNode node, String role, String name, Path key, String top, String sections)
            throws Exception {
        List<String> command = new ArrayList<>(node == b ? beforeTarget : List.of());
        command.addAll(java);
        ServiceProcess service = testbed.add(ServiceProcess.beginKept(
                node,
                new JavaCommand(command),
                name,
                testbed.folder(),
                base,
                List.of(role),
                """
                key_file = "%1$s"
                control_socket = "%2$s/%3$s.sock"
                transport = "tcp"
                warm_up_migrations = %4$d
                """.formatted(key, testbed.folder(), role, warmUpMigrations) + top,
                sections,
                """
                [checkpointers.criu]
                type = "criu"
                landlock = "allow"
                trusted_users = [%d]
                program = [%s]
                """.formatted(
                                USER,
                                CheckpointerConfig.criu(System.getenv()).stream()
                                        .map(word -> "\"" + word + "\"")
                                        .collect(Collectors.joining(", "))),
                bin == null ? "" : """
                [checkpointers.blcr]
                type = "blcr"
                checkpoint_program = "%1$s/cr_checkpoint"
                restart_program = "%1$s/cr_restart"
                kernel_module = false
                """.formatted(bin)));
        return service;
    }

    /** This does not use its log, because a service may be started without one. */
    private void awaitAnswer(String role, ServiceProcess service) throws Exception {
        Conditions.until(LIMIT, "the " + role + " answers", () -> {
            try (ControlClient client = new ControlClient(testbed.folder().resolve(role + ".sock"))) {
                client.status();
                return true;
            } catch (IOException e) {
                if (!service.isAlive()) {
                    throw new IOException("the " + role + " has ended; its log ends:\n" + service.logEnd(20), e);
                }
                return false;
            }
        });
    }

    ServiceProcess source() {
        return source;
    }

    ServiceProcess target() {
        return target;
    }

    /** Ends the source's service, so that another one can be started. */
    void stopSource() throws Exception {
        testbed.close(source);
    }

    /** Moves a job of the configuration. */
    MigrationReport migrate(String job) throws IOException, RequestException {
        try (ControlClient client = new ControlClient(testbed.folder().resolve("source.sock"))) {
            client.start(job, true);
            return client.awaitReport(LIMIT, progress -> {});
        }
    }

    /** A job of an ordinary user, which leads a session in the first node. */
    final class Running implements AutoCloseable {
        private final Path folder;

        private Running(Path folder) {
            this.folder = folder;
        }

        Path folder() {
            return folder;
        }

        long turns() throws IOException {
            Path turns = folder.resolve("turns");
            Path passes = folder.resolve("passes");
            if (Files.exists(passes)) {
                return Files.readAllLines(passes).size();
            }
            // Some programs replace the number, and others add a line.
            List<String> lines = Files.exists(turns) ? Files.readAllLines(turns) : List.of("-1");
            return lines.isEmpty()
                    ? -1
                    : Long.parseLong(lines.get(lines.size() - 1).strip());
        }

        /** Waits until it checked all its features, and found everything right. */
        void requireTurns() throws Exception {
            requireTurns(TURNS);
        }

        void requireTurns(int count) throws Exception {
            long from = turns();
            Conditions.until(LIMIT, "the job in " + folder + " continues", () -> {
                complaint().ifPresent(wrong -> {
                    throw new AssertionError("the job says: " + wrong);
                });
                return turns() >= from + count;
            });
        }

        /** Returns the mistake that it found, or empty if there is none. */
        Optional<String> complaint() {
            try {
                Path failed = folder.resolve("failed");
                return Files.exists(failed)
                        ? Optional.of(Files.readString(failed).strip())
                        : Optional.empty();
            } catch (IOException e) {
                return Optional.of(e.toString());
            }
        }

        /** Ends it, with the process outside. Returns when it is over on both nodes. */
        @Override
        public void close() throws Exception {
            Files.createFile(folder.resolve("stop"));
            // Other programs do not write that file.
            int looks = Files.exists(folder.resolve("passes")) ? 0 : 200;
            for (TestNode node : List.of(a, b)) {
                node.run(
                        LIMIT,
                        "sh",
                        "-c",
                        "for i in $(seq " + looks + "); do pgrep -u " + USER
                                + " >/dev/null || exit 0; sleep 0.05; done; pkill -9 -u " + USER + "; exit 0");
            }
        }
    }

    /** Starts {@code feature-job} in the first node, and waits until it has taken a few turns. */
    Running job(int ranks, List<String> features) throws Exception {
        List<String> words = new ArrayList<>();
        words.add(program("feature-job").toString());
        Path folder = folderOfJob();
        words.addAll(List.of(folder.toString(), TestNode.DISK.toString(), Integer.toString(ranks)));
        words.addAll(features);
        Running job = run(folder, words);
        if (ranks == 2) {
            Conditions.until(LIMIT, "the second rank has begun", () -> Files.exists(folder.resolve("pid.1")));
        }
        return job;
    }

    /** Returns one of the programs that the tests have. */
    static Path program(String name) {
        return Path.of(System.getProperty("ppmr.demo.dir"), name);
    }

    /** Makes the folder of the next job, which is the user's. */
    Path folderOfJob() throws IOException {
        jobs++;
        Path folder = Files.createDirectory(testbed.folder().resolve("jobs/" + jobs));
        Files.setAttribute(folder, "unix:uid", USER);
        Files.setAttribute(folder, "unix:gid", USER);
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path current = testbed.folder().resolve("current");
        Files.deleteIfExists(current);
        Files.createSymbolicLink(current, folder);
        return folder;
    }

    /** Starts a program of the user's that writes its PID and its turns into the folder. */
    Running run(Path folder, List<String> command) throws Exception {
        List<String> words = new ArrayList<>(
                List.of("setpriv", "--reuid", "" + USER, "--regid", "" + USER, "--clear-groups", "setsid"));
        words.addAll(command);
        Running job = new Running(folder);
        a.startDetached(testbed.folder().resolve("started"), words);
        Conditions.until(LIMIT, command + " takes turns", () -> {
            job.complaint().ifPresent(wrong -> {
                throw new AssertionError("the job says before it is moved: " + wrong);
            });
            return Files.exists(folder.resolve("pid")) && job.turns() >= 2;
        });
        return job;
    }

    /** Starts a job that writes its own image, as BLCR has a process do. */
    Running selfCheckpointing() throws Exception {
        Path folder = folderOfJob();
        String line = "echo $$ >$0/pid; exec " + bin.resolve("selfckpt-job")
                + " --size 1048576 --passes 100000 --seed 1 --out $0/out --progress $0/passes --pace 20";
        return run(folder, List.of("sh", "-c", line, folder.toString()));
    }

    /** Starts a job that has memory and knows nothing of checkpoints. */
    Running large(long bytes) throws Exception {
        Path folder = folderOfJob();
        String line = "echo $$ >$0/pid; exec " + program("plain-job") + " --size " + bytes
                + " --passes 100000 --seed 1 --out $0/out --progress $0/passes --pace 20";
        return run(folder, List.of("sh", "-c", line, folder.toString()));
    }

    /** Runs a shell's line in a node. */
    String shell(TestNode node, String line) throws IOException, InterruptedException {
        return node.run(LIMIT, "sh", "-c", line);
    }

    /** The ends of both logs, for a failure. */
    String logEnds() throws IOException {
        return "--- source\n" + (source == null ? "" : source.logEnd(15)) + "\n--- target\n"
                + (target == null ? "" : target.logEnd(15));
    }

    @Override
    public void close() throws IOException {
        testbed.close();
    }
}
