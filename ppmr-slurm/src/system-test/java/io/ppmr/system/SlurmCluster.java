package io.ppmr.system;

import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/**
 * A Slurm cluster of three nodes on this machine. n0 has the controller and a ppmr target. n1 and n2 each have a ppmr
 * source. n2 is in the partition "three" alone. Each node has PIDs and an address of its own. All daemons run in the
 * nodes, in the foreground. Their key, spool and configuration are in a folder of this cluster, and they end with their
 * node.
 */
final class SlurmCluster implements AutoCloseable {
    /** An ordinary user that every Debian has. Slurm looks names up in the user database. */
    static final int USER = 65_534;

    static final List<String> PROGRAMS = List.of("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol");

    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final String ADDRESS_0 = "169.254.79.1";
    private static final String ADDRESS_1 = "169.254.79.2";
    private static final String ADDRESS_2 = "169.254.80.2";
    private static final String ADDRESS_0_FOR_2 = "169.254.80.1";
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(200);

    private final Testbed testbed;
    private final Path folder;
    /** Further lines of the template of pods. Empty for a cluster without pods. */
    private final Optional<String> pods;

    private TestNode n0;
    private TestNode n1;
    private TestNode n2;

    private SlurmCluster(Testbed testbed, Optional<String> pods) {
        this.testbed = testbed;
        this.pods = pods;
        folder = testbed.folder();
    }

    /** Starts a cluster whose nodes are idle and whose services are ready. Removes everything if that fails. */
    static SlurmCluster start() throws Exception {
        return start("slurm", Optional.empty());
    }

    /**
     * Starts a cluster with pods for the job's user. The pods on n1 and n2 have 10.20.0.11 and 12, and can move to n0.
     * The nodes have 10.20.0.200 to 202 in that network.
     *
     * @param template further lines of the template
     */
    static SlurmCluster startWithPods(String template) throws Exception {
        return start("slurm-pods", Optional.of(template));
    }

    private static SlurmCluster start(String name, Optional<String> pods) throws Exception {
        SlurmCluster cluster = new SlurmCluster(Testbed.create(name), pods);
        try {
            cluster.makeFiles();
            cluster.startSlurm();
            cluster.startServices();
            return cluster;
        } catch (Exception e) {
            cluster.close();
            throw e;
        }
    }

    /** Returns where a program is, in the usual places, or empty if it is not installed. */
    static Optional<Path> find(String program) {
        return Stream.of("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")
                .map(place -> Path.of(place, program))
                .filter(Files::isExecutable)
                .findFirst();
    }

    Path folder() {
        return folder;
    }

    /** The program {@code ppmr} as the job's user can call it. */
    Path ppmr() {
        return folder.resolve("ppmr");
    }

    /** The job's programs. */
    Path bin() {
        return folder.resolve("bin");
    }

    /** A folder of the job's user. */
    Path userFolder(String name) throws IOException {
        Path path = Files.createDirectory(folder.resolve(name));
        Files.setAttribute(path, "unix:uid", USER);
        return path;
    }

    private void makeFiles() throws IOException {
        mode(folder, "rwxr-xr-x");
        for (String part : List.of("native", "native-test")) {
            copy(HOME.resolve("ppmr-checkpoint/target/" + part), bin());
        }
        // The job's user may not be able to read the folder that this was built in.
        for (String module : List.of("ppmr-cli", "ppmr-pods", "ppmr-slurm")) {
            copy(HOME.resolve(module + "/target/classes"), folder.resolve("classes-" + module));
        }
        copy(HOME.resolve("ppmr-cli/target/lib"), folder.resolve("lib"));
        Properties flags = new Properties();
        try (var in = Files.newInputStream(HOME.resolve("conf/jvm.properties"))) {
            flags.load(in);
        }
        Files.writeString(ppmr(), """
                #!/bin/bash
                export _JAVA_SR_SIGNUM=40 PPMR_JAVA=%2$s
                export PPMR_CLASSPATH='%1$s/classes-ppmr-cli:%1$s/classes-ppmr-pods:%1$s/classes-ppmr-slurm'
                export PPMR_CLASSPATH="$PPMR_CLASSPATH:%1$s/lib/*"
                export PPMR_JAVA_OPTIONS='%3$s'
                exec "$PPMR_JAVA" $PPMR_JAVA_OPTIONS -Dppmr.native.dir=%1$s/bin -cp "$PPMR_CLASSPATH" \\
                    io.ppmr.cli.Main "$@"
                """.formatted(
                        folder,
                        javaForEverybody(),
                        flags.getProperty("PPMR_JAVA_OPTIONS").trim().replaceAll("\\s+", " ")));
        mode(ppmr(), "rwxr-xr-x");
        byte[] key = new byte[1024];
        new SecureRandom().nextBytes(key);
        Files.write(folder.resolve("munge.key"), key);
        Files.writeString(folder.resolve("key"), "a key that only this cluster knows, longer than 32 bytes\n");
        mode(folder.resolve("munge.key"), "rw-------");
        mode(folder.resolve("key"), "rw-------");
        mode(Files.createDirectory(local()), "rwxr-xr-x");
        Files.createDirectory(folder.resolve("state"));
        Files.createFile(folder.resolve("jobcomp"));
        Files.writeString(folder.resolve("slurm.conf"), texts().slurm(ADDRESS_1, ADDRESS_2));
    }

    /** A JVM that an ordinary user can start: this one, or another. */
    private static Path javaForEverybody() throws IOException {
        List<Path> candidates = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"))));
        try (Stream<Path> installed = Files.list(Path.of("/usr/lib/jvm"))) {
            candidates.addAll(installed.sorted(Comparator.reverseOrder()).toList());
        } catch (FileSystemException e) {
            candidates.add(Path.of("/usr"));
        }
        for (Path candidate : candidates) {
            Path java = candidate.resolve("bin/java");
            Process probe = new ProcessBuilder(as(List.of(java.toString(), "-version")))
                    .redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .start();
            try {
                if (probe.waitFor(60, TimeUnit.SECONDS) && probe.exitValue() == 0) {
                    return java;
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IOException("interrupted", e);
            }
        }
        throw new IOException("no JVM that user " + USER + " can start, among " + candidates);
    }

    private static List<String> as(List<String> words) {
        List<String> all = new ArrayList<>(
                List.of("setpriv", "--reuid=" + USER, "--regid=" + USER, "--clear-groups", "--inh-caps=-all"));
        all.addAll(words);
        return all;
    }

    private static void mode(Path path, String mode) throws IOException {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(mode));
    }

    private static void copy(Path from, Path to) throws IOException {
        try (Stream<Path> all = Files.walk(from)) {
            for (Path path : all.toList()) {
                Path copied = to.resolve(from.relativize(path).toString());
                if (Files.isDirectory(path)) {
                    Files.createDirectories(copied);
                    mode(copied, "rwxr-xr-x");
                } else {
                    Files.copy(path, copied, StandardCopyOption.REPLACE_EXISTING);
                    mode(copied, Files.isExecutable(path) ? "rwxr-xr-x" : "rw-r--r--");
                }
            }
        }
    }

    private SlurmTexts texts() {
        return new SlurmTexts(folder, bin(), ADDRESS_0, pods);
    }

    private void startSlurm() throws Exception {
        n0 = testbed.add(TestNode.create("n0"));
        n1 = testbed.add(TestNode.create("n1"));
        TestNode.connect(n0, ADDRESS_0, n1, ADDRESS_1);
        n2 = testbed.add(TestNode.create("n2"));
        connectThird();
        if (pods.isPresent()) {
            layPodsNetwork();
        }
        daemon(
                n0,
                "munged",
                "--foreground",
                "--force",
                "--key-file=" + folder + "/munge.key",
                "--socket=" + folder + "/munge.socket",
                "--pid-file=" + folder + "/munged.pid",
                "--log-file=" + folder + "/munged.log",
                "--seed-file=" + folder + "/munge.seed");
        await("munge's socket", () -> Files.exists(folder.resolve("munge.socket")));
        daemon(n0, "slurmctld", "-D");
        daemon(n0, "slurmd", "-D", "-N", "n0");
        daemon(n1, "slurmd", "-D", "-N", "n1");
        daemon(n2, "slurmd", "-D", "-N", "n2");
        await("three idle nodes", () -> slurm("sinfo", "--noheader", "--Node", "--partition=three", "--format=%T")
                .equals("idle\nidle\nidle"));
    }

    /**
     * Adds a second veth pair to n0, over which n2 reaches n0's usual address, too. n2's source gets directories of its
     * own.
     */
    private void connectThird() throws IOException, InterruptedException {
        TestNode.cable(n0, "third", n2, "third");
        n0.raise("third", ADDRESS_0_FOR_2 + "/30");
        n2.raise("third", ADDRESS_2 + "/30");
        n2.run(LIMIT, "ip", "link", "set", "lo", "up");
        n2.run(LIMIT, "ip", "route", "add", ADDRESS_0 + "/32", "via", ADDRESS_0_FOR_2);
        Path own = Files.createDirectory(folder.resolve("local.n2"));
        mode(own, "rwxr-xr-x");
        n2.run(LIMIT, "mount", "--bind", own.toString(), local().toString());
    }

    /** A bridge on each node, all of one network. */
    private void layPodsNetwork() throws IOException, InterruptedException {
        List<TestNode> nodes = List.of(n0, n1, n2);
        for (int number = 0; number < nodes.size(); number++) {
            TestNode node = nodes.get(number);
            node.run(LIMIT, "ip", "link", "add", "br0", "address", "02:51:00:00:00:1" + number, "type", "bridge");
            node.raise("br0", "10.20.0.20" + number + "/24");
            // The runtime refuses a node with cgroups of both versions, as containers may be.
            node.run(
                    LIMIT,
                    "sh",
                    "-c",
                    "! mountpoint -q /sys/fs/cgroup/unified || mount -t tmpfs none /sys/fs/cgroup/unified");
            if (number > 0) {
                TestNode.cable(n0, "pods" + number, node, "pods0");
                n0.run(LIMIT, "ip", "link", "set", "pods" + number, "master", "br0", "up");
                node.run(LIMIT, "ip", "link", "set", "pods0", "master", "br0", "up");
            }
        }
    }

    /** The control socket of n0's target. */
    Path targetSocket() {
        return folder.resolve("target.sock");
    }

    /** Lists the pods of all nodes, by node and full name. */
    List<String> pods() throws IOException, InterruptedException {
        List<String> all = new ArrayList<>();
        for (TestNode node : List.of(n0, n1, n2)) {
            Path socket = node.equals(n0) ? targetSocket() : sourceSocket();
            node.run(LIMIT, ppmr().toString(), "pod", "list", "--socket", socket.toString())
                    .lines()
                    .filter(line -> line.contains("/"))
                    .map(line -> node.name() + ": " + line.split(" ", 2)[0])
                    .forEach(all::add);
        }
        return all;
    }

    /**
     * Returns the folder with the files that each node has under the same name: the users' announcements, and the
     * source's socket.
     */
    Path local() {
        return folder.resolve("local");
    }

    /** The control socket of a node's source. */
    Path sourceSocket() {
        return local().resolve("source.sock");
    }

    private void startServices() throws Exception {
        Files.writeString(folder.resolve("target.toml"), texts().target());
        for (String role : List.of("source", "source2")) {
            Files.writeString(folder.resolve(role + ".toml"), texts().source(role));
        }
        service(n0, "target", "target");
        service(n1, "source", "source");
        service(n2, "source2", "source");
        for (String role : List.of("target", "source", "source2")) {
            await(role, () -> Files.readString(folder.resolve(role + ".out")).contains("ready"));
        }
    }

    private void service(TestNode node, String name, String role) throws IOException {
        start(
                node,
                name,
                ppmr().toString(),
                role,
                "--config",
                folder.resolve(name + ".toml").toString());
    }

    private void daemon(TestNode node, String... words) throws IOException {
        String program = find(words[0]).orElseThrow().toString();
        List<String> all = new ArrayList<>(Arrays.asList(words));
        all.set(0, program);
        start(node, node.name() + "." + words[0], all.toArray(String[]::new));
    }

    private void start(TestNode node, String name, String... words) throws IOException {
        List<String> all = new ArrayList<>(List.of("env", "SLURM_CONF=" + folder.resolve("slurm.conf")));
        all.addAll(Arrays.asList(words));
        Process process = node.command(all)
                .redirectOutput(folder.resolve(name + ".out").toFile())
                .redirectError(folder.resolve(name + ".err").toFile())
                .start();
        process.getOutputStream().close();
    }

    /** Runs one of Slurm's commands as root on n0 and returns its output. */
    String slurm(String... words) throws IOException, InterruptedException {
        List<String> all = new ArrayList<>(List.of("env", "SLURM_CONF=" + folder.resolve("slurm.conf")));
        all.addAll(Arrays.asList(words));
        return n0.run(LIMIT, all.toArray(String[]::new));
    }

    /** Runs one of Slurm's commands as the job's user. */
    String slurmAsUser(String... words) throws IOException, InterruptedException {
        return slurm(as(Arrays.asList(words)).toArray(String[]::new));
    }

    /** Runs a command as the job's user on n1, to its end. */
    String onComputeNodeAsUser(String... words) throws IOException, InterruptedException {
        return n1.run(LIMIT, as(Arrays.asList(words)).toArray(String[]::new));
    }

    /** Runs a command as root on a compute node. */
    String onComputeNode(String... words) throws IOException, InterruptedException {
        return n1.run(LIMIT, words);
    }

    /** A condition that is polled, because no event reports it. */
    @FunctionalInterface
    interface Condition {
        boolean holds() throws IOException, InterruptedException;
    }

    /** Polls until the condition is true. A failed poll counts as false. Throws with the logs after the time limit. */
    void await(String what, Condition condition) throws IOException, InterruptedException {
        long deadlineNs = System.nanoTime() + LIMIT.toNanos();
        String last = "";
        while (System.nanoTime() - deadlineNs < 0) {
            try {
                if (condition.holds()) {
                    return;
                }
            } catch (IOException e) {
                last = String.valueOf(e.getMessage());
            }
            LockSupport.parkNanos(LOOK_NS);
            if (Thread.interrupted()) {
                throw new InterruptedException("interrupted while waiting for " + what);
            }
        }
        throw new IOException("there is no " + what + " after " + LIMIT + "; " + last + "\n" + logs());
    }

    /** The ends of all logs. */
    String logs() throws IOException {
        StringBuilder text = new StringBuilder();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path log : files.filter(file -> file.toString().matches(".*\\.(log|err)"))
                    .sorted()
                    .toList()) {
                List<String> lines = Files.readAllLines(log);
                text.append("--- ").append(log.getFileName()).append('\n');
                lines.subList(Math.max(0, lines.size() - 15), lines.size())
                        .forEach(line -> text.append(line).append('\n'));
            }
        }
        return text.toString();
    }

    @Override
    public void close() throws IOException {
        testbed.close();
    }
}
