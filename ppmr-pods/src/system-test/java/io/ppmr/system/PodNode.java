package io.ppmr.system;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.linux.Command;
import io.ppmr.migration.RequestException;
import io.ppmr.pods.PodClient;
import io.ppmr.pods.PodOrder;
import io.ppmr.pods.PodStatus;
import io.ppmr.pods.Pods;
import io.ppmr.testbed.Conditions;
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
import org.junit.jupiter.api.Assumptions;

/**
 * A node with a bridge, and a source's service in it that grants pods. 10.20.0.N0 to N4 belong to user 1, N5 to N9 to
 * user 8. The group of user 5 controls the service. User 9 has no privilege. All of these are in every node's user
 * database. The test's own process is root. All of it belongs to the {@link Testbed}.
 */
final class PodNode {
    static final int OWNER = 1;
    static final int OTHER = 8;
    static final int CONTROLLER = 5;
    static final int NOBODY = 9;

    static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    static final String ASK =
            "$SIG{PIPE} = 'IGNORE'; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die \"connect: $!\";"
                    + " print $s \"$ARGV[1]\\n\"; print scalar <$s>";

    /** Skips the caller's tests, with the reason, where no pods can be made. */
    static void assumePossible() throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: nodes are namespaces");
        Assumptions.assumeTrue(
                Command.of(List.of("sh", "-c", "command -v crun")).run(LIMIT).succeeded(),
                "needs crun, which makes pods (./ppmr setup)");
    }

    private final Testbed testbed;
    private final Path folder;
    private final int number;
    private final TestNode node;
    private ServiceProcess service;

    PodNode(Testbed testbed, int number) throws Exception {
        this.testbed = testbed;
        this.number = number;
        folder = testbed.folder("node-" + number);
        node = testbed.add(TestNode.create("pods-" + number));
        run("ip", "link", "add", "br0", "address", "02:51:00:00:00:0" + number, "type", "bridge");
        run("ip", "link", "set", "br0", "up");
        // The runtime refuses a node with cgroups of both versions, as containers may be.
        run("sh", "-c", "! mountpoint -q /sys/fs/cgroup/unified || mount -t tmpfs none /sys/fs/cgroup/unified");
        if (!Files.exists(key())) {
            KeyFile.create(key());
        }
        // What the runtime is started by, so that a test can have it hang, or wait, before a pod's command begins.
        Path runtime = Files.writeString(folder.resolve("runtime"), """
                #!/bin/sh
                for word; do
                    if [ "$word" = start ] && [ -e %1$s/hang ]; then
                        touch %1$s/hangs
                        exec sleep 600
                    fi
                    while [ "$word" = start ] && [ -e %1$s/wait ]; do
                        touch %1$s/waits
                        sleep 0.1
                    done
                    if [ "$word" = create ] && [ -e %1$s/exchange ]; then
                        crun "$@" || exit
                        exec perl %1$s/exchange %1$s/caught "$@"
                    fi
                done
                exec crun "$@"
                """.formatted(folder));
        Files.setPosixFilePermissions(runtime, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    /** Joins the bridges of two nodes. */
    static void connect(PodNode a, PodNode b) throws Exception {
        connect(a, b, "up0");
    }

    /** Joins them by a cable of a name that neither of them has yet. */
    static void connect(PodNode a, PodNode b, String cable) throws Exception {
        TestNode.cable(a.node, cable, b.node, cable);
        a.run("ip", "link", "set", cable, "master", "br0", "up");
        b.run("ip", "link", "set", cable, "master", "br0", "up");
    }

    /** Returns the words that run a command on the node. */
    List<String> words(String... command) {
        return node.command(List.of(command)).command();
    }

    /** Starts the service without cgroups. */
    void start(String furtherTemplates) throws Exception {
        start("disabled", "", furtherTemplates);
    }

    /**
     * Starts the service, in place of the one before.
     *
     * @param cgroups as in the configuration
     * @param limits further lines of the usual template
     * @param furtherTemplates sections
     */
    void start(String cgroups, String limits, String furtherTemplates) throws Exception {
        String first = "10.20.0." + number;
        service = testbed.add(ServiceProcess.startIn(node, "source", "source", folder, """
                key_file = "%1$s"
                control_socket = "%2$s/source.sock"
                control_group = "games"
                transport = "tcp"
                warm_up_migrations = 0
                [target]
                address = "127.0.0.1:7411"
                [pod_runtime]
                directory = "%2$s/pods"
                program = ["%2$s/runtime"]
                cgroups = "%4$s"
                [pods.usual]
                bridge = "br0"
                shares = [{user = 1, first = "%3$s0", last = "%3$s4"}, {user = "mail", first = "%3$s5", last = "%3$s9"}]
                tmp = "1m"
                shm = "1m"
                %5$s
                %6$s
                """.formatted(
                        key(), folder, first, cgroups, limits, furtherTemplates)));
    }

    ServiceProcess service() {
        return service;
    }

    Path folder() {
        return folder;
    }

    private Path key() {
        return testbed.folder().resolve("key");
    }

    Path socket() {
        return folder.resolve("source.sock");
    }

    /** Runs something on the node, as root. */
    String run(String... words) throws IOException, InterruptedException {
        return node.run(LIMIT, words);
    }

    /** Returns whether a network interface is there. */
    boolean hasLink(String name) throws IOException, InterruptedException {
        return Command.of(
                        node.command(List.of("ip", "link", "show", "dev", name)).command())
                .run(LIMIT)
                .succeeded();
    }

    /** Lists the PIDs of the node's processes of pods, and of what makes pods. */
    String podProcesses() throws IOException, InterruptedException {
        return run("sh", "-c", "grep -lE '^(ppmr-pod|crun|[0-9]+$)' /proc/[0-9]*/comm || true");
    }

    /** Root has a pod of a user made. */
    PodStatus runFor(int uid, String name, String... command) throws IOException, RequestException {
        PodOrder order =
                PodOrder.inPod(name, List.of(command)).forUser("" + uid).withOutput("/tmp/out");
        try (PodClient client = new PodClient(socket())) {
            return client.runPod(order);
        }
    }

    /** Runs a further command, as root's word for the pod's user. */
    Pods.Executed execute(String pod, String... command) throws IOException, RequestException {
        PodOrder order = PodOrder.inPod(pod, List.of(command));
        try (PodClient client = new PodClient(socket())) {
            return client.execute(order, false);
        }
    }

    /** Waits until a pod's command wrote a text, and returns all of its output. */
    String awaitOutput(String pod, String text) throws Exception {
        List<String> said = new ArrayList<>(List.of(""));
        Conditions.until(LIMIT, "pod " + pod + " says " + text, () -> {
            said.set(0, execute(pod, "cat", "/tmp/out").output());
            return said.get(0).contains(text);
        });
        return said.get(0);
    }

    List<PodStatus> list() throws IOException, RequestException {
        try (PodClient client = new PodClient(socket())) {
            return client.pods();
        }
    }

    PodStatus stop(String pod) throws IOException, RequestException {
        try (PodClient client = new PodClient(socket())) {
            return client.stopPod(pod);
        }
    }

    void stopAll() throws IOException, RequestException {
        for (PodStatus pod : list()) {
            stop(pod.name());
        }
    }

    /** An ordinary user sends a request to the service. Returns the answer, which is one JSON object. */
    JsonNode ask(int uid, String request) throws IOException, InterruptedException {
        String answer = Command.of(List.of(
                        "setpriv",
                        "--reuid",
                        "" + uid,
                        "--regid",
                        uid == CONTROLLER ? "games" : "" + uid,
                        "--clear-groups",
                        "perl",
                        "-MIO::Socket::UNIX",
                        "-e",
                        ASK,
                        socket().toString(),
                        request))
                .in(Path.of("/"))
                .withOutputLimit(8 << 20)
                .run(LIMIT)
                .requireOutput();
        return new ObjectMapper().readTree(answer);
    }
}
