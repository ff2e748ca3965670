package io.ppmr.system;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.pods.PodOrder;
import io.ppmr.daemon.pods.PodStatus;
import io.ppmr.migration.RefusedException;
import io.ppmr.os.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Node;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/**
 * A node with a bridge on a network of all such nodes, and a source's and a target's service, which share the node's
 * pods. User 1 may have 10.20.0.10 to 19 on each. What CRIU is told goes through a script, so that a test can have a
 * restore fail, or wait. All of it belongs to the {@link Testbed}.
 */
final class MovingNode {
    static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    private final Testbed testbed;
    private final Path folder;
    private final int number;
    private final Node node;
    private final String pods;
    private ServiceProcess source;
    private ServiceProcess target;

    /** Skips the caller's tests, and says why, where no user's pod can be moved. */
    static void assumePossible() throws Exception {
        PodNode.assumePossible();
        Assumptions.assumeTrue(!System.getenv().getOrDefault("PPMR_CRIU", "").isBlank(), "needs CRIU (./ppmr setup)");
    }

    MovingNode(Testbed testbed, int number) throws Exception {
        this(testbed, number, "tmp = \"8m\"\nshm = \"8m\"");
    }

    /** @param pods further lines of the template of its pods, here and where they are moved to */
    MovingNode(Testbed testbed, int number, String pods) throws Exception {
        this.testbed = testbed;
        this.number = number;
        this.pods = pods;
        folder = testbed.folder("node-" + number);
        node = testbed.add(Node.create("moving-" + number));
        run("ip", "link", "add", "br0", "address", "02:51:00:00:00:0" + number, "type", "bridge");
        run("ip", "link", "set", "br0", "up");
        run("ip", "address", "add", address() + "/24", "dev", "br0");
        // The runtime refuses a node with cgroups of both versions, as containers may be.
        run("sh", "-c", "! mountpoint -q /sys/fs/cgroup/unified || mount -t tmpfs none /sys/fs/cgroup/unified");
        if (!Files.exists(key())) {
            KeyFile.create(key());
        }
        List<String> words = System.getenv("PPMR_CRIU").lines().toList();
        Path criu = Files.writeString(folder.resolve("criu"), """
                #!/bin/sh
                if [ "$1" = restore ] && [ -e %1$s/fail ]; then exit 9; fi
                while [ "$1" = restore ] && [ -e %1$s/wait ]; do touch %1$s/waits; sleep 0.1; done
                exec %2$s "$@"
                """.formatted(folder, String.join(" ", words)));
        Files.setPosixFilePermissions(criu, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    /** Joins the bridges of two nodes. */
    static void connect(MovingNode a, MovingNode b) throws Exception {
        Node.cable(a.node, "up" + b.number, b.node, "up" + a.number);
        a.run("ip", "link", "set", "up" + b.number, "master", "br0", "up");
        b.run("ip", "link", "set", "up" + a.number, "master", "br0", "up");
    }

    private String address() {
        return "10.20.0.20" + number;
    }

    /** The node's name as migrations go to it. */
    String endpoint() {
        return address() + ":7411";
    }

    Path folder() {
        return folder;
    }

    Path socket() {
        return folder.resolve("source.sock");
    }

    /** Gives the words that run a command on the node. */
    List<String> words(String... command) {
        return node.command(List.of(command)).command();
    }

    private Path key() {
        return testbed.folder().resolve("key");
    }

    private String common(String bridge, String template) {
        return """
                [checkpointers.criu]
                type = "criu"
                program = ["%1$s/criu"]
                %2$s
                [pod_runtime]
                directory = "%1$s/pods"
                cgroups = "disabled"
                [pods.usual]
                bridge = "%4$s"
                shares = [{user = 1, first = "10.20.0.10", last = "10.20.0.19"}]
                checkpointer = "criu"
                %5$s
                %3$s
                """.formatted(folder, "%s", template, bridge, pods);
    }

    void start() throws Exception {
        startSource();
        startTarget("");
    }

    void startSource() throws Exception {
        source = testbed.add(ServiceProcess.startIn(
                node,
                "source",
                "source",
                folder,
                """
                key_file = "%1$s"
                control_socket = "%2$s/source.sock"
                transport = "tcp"
                rehearsals = 0
                [target]
                address = "127.0.0.1:7411"
                """.formatted(key(), folder) + common("br0", "").formatted("")));
    }

    /** @param template further lines of the template at this target, or other ones */
    void startTarget(String template) throws Exception {
        startTarget("br0", template, "[1]");
    }

    /** @param trusted the users whose pods it takes */
    void startTargetTrusting(String trusted) throws Exception {
        startTarget("br0", "", trusted);
    }

    /** @param bridge what pods are plugged into at this target */
    void startTargetAt(String bridge) throws Exception {
        startTarget(bridge, "", "[1]");
    }

    private void startTarget(String bridge, String template, String trusted) throws Exception {
        target = testbed.add(ServiceProcess.startIn(
                node,
                "target",
                "target",
                folder,
                """
                key_file = "%1$s"
                control_socket = "%2$s/target.sock"
                transport = "tcp"
                rehearsals = 0
                listen = "%3$s"
                """.formatted(key(), folder, endpoint())
                        + common(bridge, template).formatted("trusted_users = " + trusted)));
    }

    ServiceProcess source() {
        return source;
    }

    ServiceProcess target() {
        return target;
    }

    /** Runs something on the node, as root. */
    String run(String... words) throws IOException, InterruptedException {
        return node.run(LIMIT, words);
    }

    /** Starts something on the node, as root; it is ended by close(). */
    Spawned spawn(String... words) throws IOException {
        return new Spawned(words(words), Files.createTempFile(folder, words[0], ".log"));
    }

    boolean hasLink(String name) throws IOException, InterruptedException {
        return Command.of(
                        node.command(List.of("ip", "link", "show", "dev", name)).command())
                .run(LIMIT)
                .succeeded();
    }

    /** Root has a pod of user 1 made. */
    PodStatus runPod(String name, String... command) throws IOException, RefusedException {
        return runPodAt(name, null, command);
    }

    PodStatus runPodAt(String name, String at, String... command) throws IOException, RefusedException {
        PodOrder order = new PodOrder(name, null, at, "1", null, null, null, "/tmp/out", null, List.of(command));
        try (ControlClient client = new ControlClient(socket())) {
            return client.runPod(order);
        }
    }

    /** Reads what a pod's command has written, wherever the pod has come from. */
    String said(PodStatus pod) throws IOException {
        return Files.readString(Path.of("/proc/" + hostPid(pod.init()) + "/root/tmp/out"));
    }

    /** The PID by which this test knows a process of the node. */
    private long hostPid(int pid) throws IOException {
        List<ProcessHandle> found = ProcessHandle.allProcesses()
                .filter(process -> isIn(namesOf(process.pid()), pid) && descends(process))
                .toList();
        if (found.size() != 1) {
            throw new IOException("node " + number + " has no pod whose init is " + pid + ", or several: " + found);
        }
        return found.get(0).pid();
    }

    /** The PIDs of a process: the test's, the node's and, in a pod, the pod's; none if it has ended. */
    private static List<String> namesOf(long pid) {
        try (Stream<String> lines = Files.lines(Path.of("/proc/" + pid + "/status"))) {
            return lines.filter(line -> line.startsWith("NSpid:"))
                    .flatMap(line ->
                            Stream.of(line.substring("NSpid:".length()).strip().split("\\s+", -1)))
                    .toList();
        } catch (IOException | UncheckedIOException ended) {
            return List.of();
        }
    }

    private static boolean isIn(List<String> names, int pid) {
        return names.size() > 2 && names.get(names.size() - 2).equals("" + pid);
    }

    private boolean descends(ProcessHandle process) {
        return Stream.iterate(Optional.of(process), Optional::isPresent, one -> one.get()
                        .parent())
                .anyMatch(one -> one.get().pid() == node.init().pid());
    }

    List<PodStatus> list(String service) throws IOException, RefusedException {
        try (ControlClient client = new ControlClient(folder.resolve(service + ".sock"))) {
            return client.pods();
        }
    }

    /** The only pod here. */
    PodStatus only() throws IOException, RefusedException {
        List<PodStatus> all = list("target");
        if (all.size() != 1) {
            throw new IOException("node " + number + " has the pods " + all);
        }
        return all.get(0);
    }

    /** Waits until a pod has written something that a text is in. */
    void await(PodStatus pod, String text) throws Exception {
        Conditions.until(
                LIMIT, "pod " + pod.name() + " says " + text, () -> said(pod).contains(text));
    }

    /** Has a pod moved, and gives what the command said. */
    PpmrCommand move(String pod, MovingNode to) throws Exception {
        return PpmrCommand.run("migrate", "--socket", socket().toString(), pod, "--to", to.endpoint());
    }

    /** An ordinary user asks the source in its own words; the first line of the answer. */
    String askAs(int uid, String request) throws IOException, InterruptedException {
        return Command.of(List.of(
                        "setpriv",
                        "--reuid",
                        "" + uid,
                        "--regid",
                        "" + uid,
                        "--clear-groups",
                        "perl",
                        "-MIO::Socket::UNIX",
                        "-e",
                        PodNode.ASK,
                        socket().toString(),
                        request))
                .in(Path.of("/"))
                .run(LIMIT)
                .requireOutput();
    }

    /** Reads the journal of a service here. */
    List<TransactionRecord> records(String service) throws IOException {
        return Nodes.journal(folder, service);
    }

    /** Waits until a service's journal has such a record of a migration. */
    void awaitRecord(String service, String id, Class<? extends TransactionRecord> kind) throws Exception {
        Conditions.until(
                LIMIT, "the " + service + "'s journal has " + kind.getSimpleName(), () -> records(service).stream()
                        .anyMatch(record ->
                                kind.isInstance(record) && record.migrationId().equals(id)));
    }

    /** Ends a pod and its cable, as when the node loses its power; the service is ended before. */
    void losePod(PodStatus pod) throws IOException, InterruptedException {
        ProcessHandle.of(hostPid(pod.init())).ifPresent(ProcessHandle::destroyForcibly);
        run("ip", "link", "delete", pod.link());
    }

    /** Reads what is recorded of a pod. */
    JsonNode journal(String name) throws IOException {
        return new ObjectMapper()
                .readTree(folder.resolve("pods/" + name + "/pod.json").toFile());
    }
}
