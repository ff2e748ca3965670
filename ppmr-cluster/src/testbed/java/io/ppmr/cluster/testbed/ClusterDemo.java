package io.ppmr.cluster.testbed;

import io.ppmr.cli.Main;
import io.ppmr.cluster.testbed.ClusterNodes.ClusterNode;
import io.ppmr.daemon.log.ServiceLog;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** The program {@code ppmr demo --cluster}. It shows the nodes of a cluster before and after one is lost. */
@Command(
        name = "ppmr demo --cluster",
        description = {
            "Makes a controller and four nodes on this machine, and shows them before and after a service is killed and"
                    + " a node is lost. Needs root.",
            "Everything that it makes is gone afterwards."
        },
        mixinStandardHelpOptions = true)
public final class ClusterDemo implements Callable<Integer> {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    @Spec
    private CommandSpec spec;

    public static void main(String[] arguments) {
        ServiceLog.begin(System.getenv(), "ppmr-demo");
        PrintWriter out = new PrintWriter(System.out, true, StandardCharsets.UTF_8);
        PrintWriter err = new PrintWriter(System.err, true, StandardCharsets.UTF_8);
        System.exit(Main.execute(new ClusterDemo(), arguments, out, err));
    }

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        try (Testbed testbed = Testbed.create("demo")) {
            ClusterNodes cluster = new ClusterNodes(testbed, "1s", "5s");
            ClusterNode control = cluster.add("control");
            control.controller("");
            out.println("A controller runs on " + control.host() + " (" + control.address() + ").");
            List<ClusterNode> nodes = new ArrayList<>();
            List<ServiceProcess> targets = new ArrayList<>();
            for (String host : List.of("n1", "n2", "n3", "n4")) {
                ClusterNode node = cluster.add(host);
                nodes.add(node);
                targets.add(node.beginTarget(ClusterNodes.quoted(control), "", ClusterNodes.noCheckpointer()));
            }
            await(control, nodes, List.of("up", "up", "up", "up"));
            show(out, "All nodes are up:", control);
            targets.get(1).kill();
            nodes.get(2).node().kill();
            await(control, nodes, List.of("up", "service-down", "suspect", "up"));
            show(out, "The service of n2 was killed, and n3 was lost:", control);
        }
        return ExitCode.OK.number();
    }

    private static void await(ClusterNode control, List<ClusterNode> nodes, List<String> states) throws Exception {
        for (int i = 0; i < nodes.size(); i++) {
            ClusterNodes.await(control.socket("controller"), nodes.get(i), states.get(i), LIMIT);
        }
    }

    private static void show(PrintWriter out, String title, ClusterNode control) throws Exception {
        out.println();
        out.println(title);
        out.println("$ ppmr nodes");
        Main.execute(
                new String[] {"nodes", "--socket", control.socket("controller").toString()}, out, out);
        out.flush();
    }
}
