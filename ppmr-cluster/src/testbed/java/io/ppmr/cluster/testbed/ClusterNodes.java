package io.ppmr.cluster.testbed;

import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.cluster.record.NodeView;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/**
 * Nodes of a cluster on one network, 10.30.0.0/24, with a switch between them. Each has a cable to it, which can be
 * cut. All of it belongs to the {@link Testbed}. It is for one thread at a time.
 */
public final class ClusterNodes {
    /** The port of controllers for questions. */
    public static final int PORT = 7413;

    /** The port of targets. */
    public static final int TARGET_PORT = 7411;

    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(10);

    private final Testbed testbed;
    private final TestNode hub;
    private final String timing;
    private final String session;
    private int count;

    /**
     * Makes the network, without nodes.
     *
     * @param tick the ensemble's tick, such as 500ms
     * @param session the time-out of sessions, such as 2s
     */
    public ClusterNodes(Testbed testbed, String tick, String session) throws Exception {
        this.testbed = testbed;
        this.timing = "tick = \"" + tick + "\"\nsession = \"" + session + "\"\n";
        this.session = session;
        hub = testbed.add(TestNode.create("switch"));
        hub.run(LIMIT, "ip", "link", "add", "br0", "type", "bridge");
        hub.run(LIMIT, "ip", "link", "set", "br0", "up");
        for (String name : List.of("key", "controller-key", "wrong-key")) {
            KeyFile.create(testbed.folder().resolve(name));
        }
    }

    /** Returns the path of a key: key, controller-key or wrong-key. */
    public Path key(String name) {
        return testbed.folder().resolve(name);
    }

    /** A node of the network. */
    public final class ClusterNode {
        private final String host;
        private final int number;
        private final Path folder;
        private final TestNode node;
        private final List<ServiceProcess> services = new ArrayList<>();

        private ClusterNode(String host, int number) throws Exception {
            this.host = host;
            this.number = number;
            folder = testbed.folder(host);
            node = testbed.add(TestNode.create(host));
            TestNode.cable(hub, "to-" + host, node, "eth0");
            hub.run(LIMIT, "ip", "link", "set", "to-" + host, "master", "br0", "up");
            node.raise("eth0", address() + "/24");
        }

        /** Returns its host name. */
        public String host() {
            return host;
        }

        /** Returns its address on the network. */
        public String address() {
            return "10.30.0." + number;
        }

        /** Returns the node. */
        public TestNode node() {
            return node;
        }

        /** Returns the folder of its services. */
        public Path folder() {
            return folder;
        }

        /** Returns the control socket of one of its services. */
        public Path socket(String role) {
            return folder.resolve(role + ".sock");
        }

        /** Cuts its cable to the switch, or mends it. */
        public void cable(boolean isIn) throws Exception {
            hub.run(LIMIT, "ip", "link", "set", "to-" + host, isIn ? "up" : "down");
        }

        /** Starts a controller here, and waits until it is ready. */
        public ServiceProcess controller(String lines) throws Exception {
            ServiceProcess controller = beginController(lines);
            controller.awaitReady(LIMIT);
            return controller;
        }

        /** Starts a controller here without waiting for it: a member of several needs a majority. */
        public ServiceProcess beginController(String lines) throws Exception {
            return begin(
                    "controller",
                    """
                    listen = "%s:%d"
                    key_file = "%s"
                    controller_key_file = "%s"
                    data = "%s"
                    control_socket = "%s"
                    """.formatted(
                                            address(),
                                            PORT,
                                            key("key"),
                                            key("controller-key"),
                                            folder.resolve("data"),
                                            socket("controller"))
                            + timing
                            + lines);
        }

        /**
         * Starts a target here, without waiting for it.
         *
         * @param controllers the addresses of the controllers, in quotes
         * @param top further lines before any section
         * @param sections further sections, with a checkpointer
         */
        public ServiceProcess beginTarget(String controllers, String top, String sections) throws Exception {
            return begin(
                    "target",
                    """
                    listen = "%s:%d"
                    key_file = "%s"
                    control_socket = "%s"
                    transport = "tcp"
                    warm_up_migrations = 0
                    unknown_users = true
                    """.formatted(address(), TARGET_PORT, key("key"), socket("target"))
                            + top
                            + cluster(controllers)
                            + sections);
        }

        /** Starts a source here, without waiting for it. */
        public ServiceProcess beginSource(String controllers, String top, String sections) throws Exception {
            return begin("source", """
                    key_file = "%s"
                    control_socket = "%s"
                    transport = "tcp"
                    warm_up_migrations = 0
                    """.formatted(key("key"), socket("source")) + top + cluster(controllers) + sections);
        }

        private String cluster(String controllers) {
            return """
                    [cluster]
                    controllers = [%s]
                    session = "%s"
                    [pool]
                    size = "4m"
                    """.formatted(controllers, session);
        }

        private ServiceProcess begin(String role, String lines) throws Exception {
            ServiceProcess service =
                    testbed.add(ServiceProcess.begin(node, ServiceProcess.java(), role, folder, List.of(role), lines));
            services.add(service);
            return service;
        }

        /** Starts a process of a user that sleeps, the one rank of a {@link #job}. */
        public void startJob(String name, int user) throws Exception {
            ProcessIdentity job = node.startDetached(
                    pidFile(name),
                    List.of(
                            "setpriv",
                            "--reuid",
                            "" + user,
                            "--regid",
                            "" + user,
                            "--clear-groups",
                            "setsid",
                            "sleep",
                            "1000"));
            ProcessTable table = new ProcessTable();
            Conditions.until(
                    LIMIT, "job " + name + " sleeps", () -> table.name(job).equals(Optional.of("sleep")));
        }

        /** Returns how many processes of jobs run here. */
        public long jobs(int user) throws Exception {
            return node.run(LIMIT, "sh", "-c", "pgrep -u " + user + " sleep || true")
                    .lines()
                    .filter(line -> line.matches("\\d+"))
                    .count();
        }

        /** Has the processes of this node see a load of its own: namespaces of one kernel share one. */
        public void load(String minute) throws Exception {
            Path file = Files.writeString(folder.resolve("loadavg"), minute + " 0.00 0.00 1/100 1000\n");
            node.run(LIMIT, "mount", "--bind", file.toString(), "/proc/loadavg");
        }

        /** Ends one of its services. */
        public void stop(ServiceProcess service) throws Exception {
            services.remove(service);
            testbed.close(service);
        }
    }

    /** Makes a node. */
    public ClusterNode add(String host) throws Exception {
        count++;
        return new ClusterNode(host, count);
    }

    /** Returns a controller's address as configurations have it, in quotes. */
    public static String quoted(ClusterNode controller) {
        return "\"" + controller.address() + ":" + PORT + "\"";
    }

    /** A checkpointer that does nothing, for targets that receive no job. */
    public static String noCheckpointer() {
        return """
                [checkpointers.none]
                type = "command"
                checkpoint = ["/bin/true"]
                restart = ["/bin/true"]
                """;
    }

    /** CRIU as the checkpointer of a user's jobs. */
    public static String criu(int user) {
        return """
                [checkpointers.criu]
                type = "criu"
                landlock = "allow"
                trusted_users = [%d]
                program = [%s]
                """.formatted(
                        user,
                        CheckpointerConfig.criu(System.getenv()).stream()
                                .map(word -> "\"" + word + "\"")
                                .collect(Collectors.joining(", ")));
    }

    /** A job of one process, for a source's configuration. */
    public String job(String name, int user) {
        return """
                [jobs.%1$s]
                user = %2$d
                group = %2$d
                checkpointer = "criu"
                ranks = [{rank = 0, pid_file = "%3$s"}]
                """.formatted(name, user, pidFile(name));
    }

    private Path pidFile(String job) {
        return testbed.folder().resolve(job + ".pid");
    }

    /** Requests the nodes from a service. */
    public static List<NodeView> nodes(Path socket) throws IOException, RequestException {
        try (ControlClient client = new ControlClient(socket)) {
            return List.of(client.askPart("nodes", Map.of(), ANSWER_LIMIT, "nodes", NodeView[].class));
        }
    }

    /** Returns the state of a node, as a service shows it; empty if it does not show the node. */
    public static String state(Path socket, ClusterNode node) throws IOException, RequestException {
        return nodes(socket).stream()
                .filter(view -> view.host().equals(node.host()))
                .map(NodeView::state)
                .findFirst()
                .orElse("");
    }

    /** Waits until a service shows a node in a state. */
    public static void await(Path socket, ClusterNode node, String state, Duration limit) throws Exception {
        String[] last = {""};
        try {
            Conditions.until(Patience.of(limit), node.host() + " is " + state, () -> {
                try {
                    last[0] = state(socket, node);
                } catch (IOException | RequestException e) {
                    last[0] = e.getMessage();
                }
                return last[0].equals(state);
            });
        } catch (TimeoutException e) {
            TimeoutException late = new TimeoutException(e.getMessage() + "; it is " + last[0]);
            late.initCause(e);
            throw late;
        }
    }
}
