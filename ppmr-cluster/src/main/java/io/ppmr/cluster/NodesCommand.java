package io.ppmr.cluster;

import io.ppmr.cli.JsonText;
import io.ppmr.cli.SocketArgument;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.cluster.record.NodeView;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.locks.LockSupport;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr nodes}: shows the nodes of a cluster. See docs/admin/cluster.md. */
@JsonResult(value = NodeView.class, list = true)
@Command(
        name = "nodes",
        description = {
            "Shows the nodes of this node's cluster, as the active controller sees them.",
            "Every service and every controller can be asked."
        },
        mixinStandardHelpOptions = true)
final class NodesCommand implements Callable<Integer> {
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(10);
    private static final Duration WATCH_STEP = Duration.ofSeconds(1);
    private static final double GIB = 1 << 30;

    @Spec
    private CommandSpec spec;

    @Option(names = "--json", description = "print the result as JSON")
    private boolean json;

    @Option(names = "--watch", description = "print the table again whenever it changes, until interrupted")
    private boolean watch;

    @Option(names = "--zone", paramLabel = "ZONE", description = "only nodes of this zone")
    private String zone;

    @Option(
            names = "--state",
            paramLabel = "STATE",
            description = "only nodes in this state: up, silent, service-down, suspect, fencing, unknown or off")
    private String state;

    @Mixin
    private SocketArgument socket;

    @Override
    public Integer call() throws Exception {
        if (watch && json) {
            throw new ParameterException(spec.commandLine(), "--watch prints tables. Remedy: leave out --json");
        }
        PrintWriter out = spec.commandLine().getOut();
        Path path = socket.anyPath(List.of(ControllerConfig.ROLE));
        List<NodeView> nodes = nodes(path);
        if (json) {
            JsonText.print(out, nodes);
            return ExitCode.OK.number();
        }
        print(out, nodes);
        while (watch) {
            LockSupport.parkNanos(WATCH_STEP.toNanos());
            List<NodeView> now = nodes(path);
            if (!now.equals(nodes)) {
                nodes = now;
                out.println();
                print(out, nodes);
            }
        }
        return ExitCode.OK.number();
    }

    private List<NodeView> nodes(Path path) throws IOException, RequestException {
        try (ControlClient client = new ControlClient(path)) {
            return List.of(client.askPart(
                    NodeRequests.NODES,
                    new NodeRequests.ListRequest(zone, state),
                    ANSWER_LIMIT,
                    NodeRequests.NODES,
                    NodeView[].class));
        }
    }

    private static void print(PrintWriter out, List<NodeView> nodes) {
        int host = Math.max(
                4, nodes.stream().mapToInt(one -> one.host().length()).max().orElse(0));
        int zone = Math.max(
                4, nodes.stream().mapToInt(one -> one.zone().length()).max().orElse(0));
        String form = "%-" + host + "s  %-12s  %-20s  %-" + zone + "s  %-13s  %7s  %7s  %6s  %5s  %8s  %s%n";
        out.printf(
                Locale.ROOT,
                form,
                "NODE",
                "STATE",
                "SINCE",
                "ZONE",
                "ROLES",
                "MEMORY",
                "STAGING",
                "PLACES",
                "LOAD",
                "FINDINGS",
                "RELEASE");
        for (NodeView node : nodes) {
            out.printf(
                    Locale.ROOT,
                    form,
                    node.host(),
                    node.state() + (node.unprobed() ? "*" : ""),
                    node.since(),
                    node.zone().isEmpty() ? "-" : node.zone(),
                    String.join(",", node.roles()),
                    gibibytes(node.memoryBytes()),
                    gibibytes(node.stagingBytes()),
                    node.places(),
                    String.format(Locale.ROOT, "%.2f", node.load()),
                    node.findings(),
                    node.release());
        }
        if (nodes.stream().anyMatch(NodeView::unprobed)) {
            out.println("* unprobed: its firewall drops the controller's probe, so it never is suspect");
        }
        out.flush();
    }

    private static String gibibytes(long bytes) {
        return String.format(Locale.ROOT, "%.1fG", bytes / GIB);
    }

    @Command(
            name = "off",
            description = {
                "Reports to a controller that the present boot of a node ended, and will not continue.",
                "Only an operator on a controller's node can report this. Nothing is done to the node."
            },
            mixinStandardHelpOptions = true)
    int off(
            @Parameters(paramLabel = "NODE", description = "the node, as ppmr nodes shows it") String node,
            @Mixin SocketArgument controller)
            throws Exception {
        String off = change(controller, NodeRequests.OFF, NodeRequests.IS_OFF, node);
        spec.commandLine().getOut().println("node " + off + " is off");
        return ExitCode.OK.number();
    }

    @Command(
            name = "forget",
            description = {
                "Removes a node from the cluster's list, if no service of it has a session.",
                "If some have one, those that have none are removed, such as a target that this node has no longer.",
                "Only an operator on a controller's node can do this. A node that returns is listed again."
            },
            mixinStandardHelpOptions = true)
    int forget(
            @Parameters(paramLabel = "NODE", arity = "1..*", description = "the nodes, as ppmr nodes shows them")
                    List<String> nodes,
            @Mixin SocketArgument controller)
            throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        ExitCode exit = ExitCode.OK;
        for (String node : nodes) {
            try {
                change(controller, NodeRequests.FORGET, NodeRequests.FORGOTTEN, node);
                out.println("node " + node + ": what has no session is forgotten");
            } catch (RequestException e) {
                spec.commandLine().getErr().println("ppmr: " + e.getMessage());
                exit = ExitCode.REFUSED;
            }
        }
        return exit.number();
    }

    private static String change(SocketArgument controller, String request, String answer, String node)
            throws Exception {
        try (ControlClient client = new ControlClient(controller.path(ControllerConfig.ROLE))) {
            return client.askPart(request, new NodeRequests.NodeRequest(node), ANSWER_LIMIT, answer, String.class);
        }
    }
}
