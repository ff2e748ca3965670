package io.ppmr.pods.testbed;

import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcStat;
import io.ppmr.migration.RequestException;
import io.ppmr.pods.PodClient;
import io.ppmr.pods.PodOrder;
import io.ppmr.pods.PodStatus;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.testbed.NodeSystemd;
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
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A node with a bridge on a network of all such nodes, 10.20.0.0/24, and a source's and a target's service, which share
 * the node's pods. User 1 may have 10.20.0.10 to 99 on each, and is trusted by each. All of it belongs to the
 * {@link Testbed}. It is for one thread at a time.
 */
public final class BridgedNode {
    public static final Duration LIMIT = Patience.of(Duration.ofMinutes(2));
    /** The user of the pods. */
    public static final String USER = "1";

    private final Testbed testbed;
    private final Path folder;
    private final int number;
    private final TestNode node;
    private final List<String> criu;
    private final String pods;
    private String cgroups = "disabled";
    private String warmUp = "warm_up_migrations = 0";
    private List<String> peers = List.of();
    private String pages = "";
    private String cluster = "";
    private JavaCommand release = ServiceProcess.java();
    private ServiceProcess source;
    private ServiceProcess target;

    /**
     * Makes it, without services.
     *
     * @param number from 1 to 9
     * @param criu the words that start CRIU
     * @param pods further lines of the template of its pods, here and on the nodes they are moved to
     */
    public BridgedNode(Testbed testbed, int number, List<String> criu, String pods) throws Exception {
        this(testbed, number, criu, pods, false);
    }

    /**
     * Makes it, without services.
     *
     * @param hasSystemd whether a systemd is its init, and starts its services with the limits of their units
     */
    public BridgedNode(Testbed testbed, int number, List<String> criu, String pods, boolean hasSystemd)
            throws Exception {
        this.testbed = testbed;
        this.number = number;
        this.criu = List.copyOf(criu);
        this.pods = pods;
        folder = testbed.folder("node-" + number);
        testbed.add(this::removeCgroups);
        NodeSystemd systemd = hasSystemd ? new NodeSystemd(testbed, "bridged-" + number) : null;
        node = testbed.add(TestNode.create("bridged-" + number));
        if (systemd != null) {
            systemd.boot(node);
        }
        run("ip", "link", "add", "br0", "address", "02:51:00:00:00:0" + number, "type", "bridge");
        run("ip", "link", "set", "br0", "up");
        run("ip", "address", "add", address() + "/24", "dev", "br0");
        // The runtime refuses a node with cgroups of both versions, as containers may be.
        run("sh", "-c", "! mountpoint -q /sys/fs/cgroup/unified || mount -t tmpfs none /sys/fs/cgroup/unified");
        if (!Files.exists(key())) {
            KeyFile.create(key());
        }
    }

    /**
     * Creates cgroups of the node for memory and tasks, of the version that is here, which no other node shares. Its
     * pods are limited by them. Call it before its services start.
     */
    public void useCgroups() throws IOException, InterruptedException {
        for (Path group : cgroupsOf()) {
            run("sh", "-ec", """
                    enabled=$2/cgroup.subtree_control
                    [ ! -e $enabled ] || echo "+memory +pids" >$enabled
                    mkdir $1
                    mount --bind $1 $2
                    """, "sh", group.toString(), group.getParent().toString());
        }
        cgroups = "cgroupfs";
    }

    /** Lists those that are the node's: one of version 2, or one for each controller. */
    private List<Path> cgroupsOf() {
        Path all = Path.of("/sys/fs/cgroup");
        String name = "ppmr-" + testbed.folder().getFileName() + "-" + number;
        return Files.exists(all.resolve("cgroup.controllers"))
                ? List.of(all.resolve(name))
                : List.of(
                        all.resolve("memory").resolve(name), all.resolve("pids").resolve(name));
    }

    /**
     * Configures its services to notify others when a pod's address is away. Call it before they start.
     *
     * @param endpoints the addresses of the other services
     */
    public void notifyPeers(List<String> endpoints) {
        peers = List.copyOf(endpoints);
    }

    /** Call it after all processes in them ended. */
    private void removeCgroups() throws IOException, InterruptedException {
        if (cgroups.equals("disabled")) {
            return;
        }
        for (Path group : cgroupsOf()) {
            Command.of(List.of("find", group.toString(), "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"))
                    .run(LIMIT)
                    .requireOutput();
        }
    }

    /**
     * Configures how its services send the memory of pods. Call it before they start.
     *
     * @param way such as precopied
     */
    public void sendPages(String way) {
        pages = "pages = \"" + way + "\"";
    }

    /**
     * Has a source and a target here be of another release. Call it before they start.
     *
     * @param command the command that starts them
     */
    public void useRelease(JavaCommand command) {
        release = command;
    }

    /**
     * Configures its services to join a cluster. Call it before they start.
     *
     * @param controllers the addresses of the controllers, in quotes
     */
    public void joinCluster(String controllers) {
        cluster = """
                [cluster]
                controllers = [%s]
                session = "4s"
                """.formatted(controllers);
    }

    /** Starts a controller here with an ensemble of its own, and waits until it is ready. */
    public ServiceProcess startController() throws Exception {
        return startController("");
    }

    /**
     * Starts a controller.
     *
     * @param checkpoints more keys of its section for checkpoints
     */
    public ServiceProcess startController(String checkpoints) throws Exception {
        Path second = testbed.folder().resolve("controller-key");
        if (!Files.exists(second)) {
            KeyFile.create(second);
        }
        return testbed.add(ServiceProcess.startIn(node, "controller", "controller", folder, """
                listen = "%1$s"
                key_file = "%2$s"
                controller_key_file = "%3$s"
                data = "%4$s/data"
                control_socket = "%4$s/controller.sock"
                tick = "1s"
                session = "4s"
                [checkpoints]
                hold_limit = "20s"
                %5$s
                """.formatted(
                        controllerAddress(), key(), second, folder, checkpoints)));
    }

    /** Returns the address of its controller for questions. */
    public String controllerAddress() {
        return address() + ":7413";
    }

    /** Configures services to warm up before they are ready, as an operator's do. Call it before they start. */
    public void warmServices() {
        warmUp = "";
    }

    /** Joins the bridges of two nodes. */
    public static void connect(BridgedNode a, BridgedNode b) throws Exception {
        TestNode.cable(a.node, a.cableTo(b), b.node, b.cableTo(a));
        a.run("ip", "link", "set", a.cableTo(b), "master", "br0", "up");
        b.run("ip", "link", "set", b.cableTo(a), "master", "br0", "up");
    }

    /** Joins them so, by a cable that carries no more than a rate, as tc(8) writes it. */
    public static void connect(BridgedNode a, BridgedNode b, String rate) throws Exception {
        connect(a, b);
        a.node.shape(a.cableTo(b), rate);
        b.node.shape(b.cableTo(a), rate);
    }

    /** Names this node's end of the cable to another one. */
    public String cableTo(BridgedNode other) {
        return "up" + other.number;
    }

    /** Returns the node's own address in the network of the pods. */
    public String address() {
        return "10.20.0.20" + number;
    }

    /** The node's name as migrations go to it. */
    public String endpoint() {
        return address() + ":7411";
    }

    public int number() {
        return number;
    }

    public Path folder() {
        return folder;
    }

    /** Returns the source's control socket. */
    public Path socket() {
        return folder.resolve("source.sock");
    }

    /** Returns the target's control socket. */
    public Path targetSocket() {
        return folder.resolve("target.sock");
    }

    private Path key() {
        return testbed.folder().resolve("key");
    }

    /** Returns the underlying node, with its PIDs, mounts and network. */
    public TestNode node() {
        return node;
    }

    /** Returns the words that run a command on the node. */
    public List<String> words(String... command) {
        return node.command(List.of(command)).command();
    }

    /** Runs something on the node, as root. */
    public String run(String... words) throws IOException, InterruptedException {
        return node.run(LIMIT, words);
    }

    // ---- services ----------------------------------------------------------------------------------------------

    /** @param trusted the line about trusted users in the section of the checkpointer, or none */
    private String common(String bridge, String template, String trusted) {
        return """
                [checkpointers.criu]
                type = "criu"
                program = [%1$s]
                %10$s
                %2$s
                [pod_runtime]
                directory = "%3$s/pods"
                cgroups = "%8$s"
                peers = [%9$s]
                [pods.usual]
                bridge = "%4$s"
                shares = [{user = %7$s, first = "10.20.0.10", last = "10.20.0.99"}]
                checkpointer = "criu"
                %5$s
                %6$s
                %11$s
                """.formatted(
                        quoted(criu),
                        trusted,
                        folder,
                        bridge,
                        pods(template),
                        template,
                        USER,
                        cgroups,
                        quoted(peers),
                        pages,
                        cluster);
    }

    /** Returns the lines of the template of its pods, without the lines that others replace. */
    private String pods(String others) {
        Set<String> keys = others.lines().map(BridgedNode::key).collect(Collectors.toSet());
        return pods.lines().filter(line -> !keys.contains(key(line))).collect(Collectors.joining("\n"));
    }

    private static String key(String line) {
        return line.substring(0, Math.max(0, line.indexOf('='))).strip();
    }

    private static String quoted(List<String> all) {
        return all.stream().map(word -> '"' + word + '"').collect(Collectors.joining(", "));
    }

    /** Starts the source, in place of the one before. */
    public void startSource() throws Exception {
        source = testbed.add(ServiceProcess.startIn(
                node,
                release,
                "source",
                "source",
                folder,
                """
                key_file = "%1$s"
                control_socket = "%2$s"
                transport = "tcp"
                %3$s
                [target]
                address = "127.0.0.1:7411"
                """.formatted(key(), socket(), warmUp) + common("br0", "", "")));
    }

    /** Starts the target, in place of the one before. */
    public void startTarget() throws Exception {
        startTarget("br0", "", "[" + USER + "]");
    }

    /**
     * Starts a target with another configuration.
     *
     * @param bridge what pods are plugged into
     * @param template further lines of the template, or other ones; sections may follow
     * @param trusted the users whose pods it accepts
     */
    public void startTarget(String bridge, String template, String trusted) throws Exception {
        target = testbed.add(ServiceProcess.startIn(
                node,
                release,
                "target",
                "target",
                folder,
                """
                key_file = "%1$s"
                control_socket = "%2$s"
                transport = "tcp"
                %4$s
                listen = "%3$s"
                stall_limit = "3m"
                """.formatted(key(), targetSocket(), endpoint(), warmUp)
                        + common(bridge, template, "trusted_users = " + trusted)));
    }

    public ServiceProcess source() {
        return source;
    }

    public ServiceProcess target() {
        return target;
    }

    // ---- pods --------------------------------------------------------------------------------------------------

    /** Returns true if there is a network interface of that name. */
    public boolean hasLink(String name) throws IOException, InterruptedException {
        return Command.of(words("ip", "link", "show", "dev", name)).run(LIMIT).succeeded();
    }

    /**
     * Root has a pod of the user made.
     *
     * @param at its address, or null for the next free one
     */
    public PodStatus runPod(String name, String at, String... command) throws IOException, RequestException {
        return runPodOf(null, name, at, command);
    }

    /**
     * Runs a pod of a job.
     *
     * @param job its name, or null for one of the pod's own
     */
    public PodStatus runPodOf(String job, String name, String at, String... command)
            throws IOException, RequestException {
        return runMember(job, 0, name, at, command);
    }

    /**
     * Runs a pod of a job over several nodes.
     *
     * @param members the number of its pods on all nodes
     */
    public PodStatus runMember(String job, int members, String name, String at, String... command)
            throws IOException, RequestException {
        PodOrder order = new PodOrder(
                new PodSpecification(name, job, null, List.of(), List.of(command), members, ""),
                at,
                USER,
                null,
                null,
                "/tmp/out",
                null);
        try (PodClient client = new PodClient(socket())) {
            return client.runPod(order);
        }
    }

    /** Lists the pods that a service here shows. */
    public List<PodStatus> pods(Path socket) throws IOException, RequestException {
        try (PodClient client = new PodClient(socket)) {
            return client.pods();
        }
    }

    /** Reads the output of a pod's command, wherever the pod started. */
    public String output(PodStatus pod) throws IOException {
        return Files.readString(Path.of("/proc/" + pidOf(pod) + "/root/tmp/out"));
    }

    /** Finds the PID of a pod's init in this JVM's namespace. */
    public long pidOf(PodStatus pod) throws IOException {
        List<Long> found = new ArrayList<>();
        ProcessHandle.allProcesses()
                .filter(process -> isCalled(process.pid(), pod.init()) && descends(process))
                .forEach(process -> found.add(process.pid()));
        if (found.size() != 1) {
            throw new IOException(
                    "node " + number + " has no pod whose init is " + pod.init() + ", or several: " + found);
        }
        return found.get(0);
    }

    /** Reads the PIDs of a process: this JVM's, the node's and, in a pod, the pod's. */
    private static boolean isCalled(long pid, int inNode) {
        try {
            String[] names = ProcStat.field(Path.of("/proc/" + pid + "/status"), "NSpid")
                    .orElse("")
                    .split("\\s+", -1);
            return names.length > 2 && names[names.length - 2].equals(Integer.toString(inNode));
        } catch (IOException ended) {
            return false;
        }
    }

    private boolean descends(ProcessHandle process) {
        return Stream.iterate(Optional.of(process), Optional::isPresent, one -> one.get()
                        .parent())
                .anyMatch(one -> one.get().pid() == node.init().pid());
    }
}
