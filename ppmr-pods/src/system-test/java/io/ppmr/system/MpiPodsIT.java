package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.pods.PodClient;
import io.ppmr.pods.PodOrder;
import io.ppmr.pods.testbed.MpiRing;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Debian's Open MPI and MPICH over pods of three nodes, started by {@code ppmr pod agent} in the place of ssh. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class MpiPodsIT {
    private static final int NODES = 3;
    private static final int ROUNDS = 50;
    private static final Duration HUNG = Patience.of(Duration.ofSeconds(40));

    private static Testbed testbed;
    private static final List<PodNode> NODE = new ArrayList<>();
    private static MpiRing ring;

    @BeforeAll
    static void start() throws Exception {
        PodNode.assumePossible();
        Optional<String> missing = MpiRing.whyNot("openmpi", "mpich");
        Assumptions.assumeTrue(missing.isEmpty(), () -> missing.get() + " (./ppmr test installs it)");
        ring = MpiRing.create("openmpi", "mpich");
        testbed = Testbed.create("mpi");
        for (int number = 1; number <= NODES; number++) {
            PodNode node = new PodNode(testbed, number);
            NODE.add(node);
            if (number > 1) {
                PodNode.connect(NODE.get(0), node, "to" + number);
            }
            node.start("""
                    [pods.mpi]
                    bridge = "br0"
                    shares = [{user = 1, first = "10.20.0.5%1$d", last = "10.20.0.5%1$d"}]
                    %2$s
                    """.formatted(number, ring.template()));
        }
        NODE.get(0).run("ip", "address", "add", "10.20.0.1/24", "dev", "br0");
    }

    @BeforeEach
    void runPods() throws Exception {
        for (PodNode node : NODE) {
            PodOrder order = new PodOrder(
                    new PodSpecification("ring", null, "mpi", List.of(), List.of("sleep", "infinity")),
                    null,
                    "1",
                    null,
                    null,
                    null,
                    null);
            try (PodClient client = new PodClient(node.socket())) {
                client.runPod(order);
            }
        }
    }

    @AfterEach
    void stopPods() throws Exception {
        for (PodNode node : NODE) {
            node.stopAll();
        }
    }

    @AfterAll
    static void end() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
        if (ring != null) {
            ring.close();
        }
    }

    private static List<String> pods() {
        return NODE.stream().map(node -> "1/ring " + node.socket()).toList();
    }

    @ParameterizedTest
    @ValueSource(strings = {"openmpi", "mpich"})
    void shouldComputeTheRightResultWhenItsRanksAreInPodsOfThreeNodes(String mpi) throws Exception {
        List<String> inPods =
                new ArrayList<>(mpi.equals("mpich") ? ring.mpich(pods(), "10.20.0.1", HUNG) : ring.openMpi(pods()));
        inPods.addAll(List.of(ring.program(mpi), "" + ROUNDS, "0"));
        Command.CommandResult run =
                Command.of(NODE.get(0).words(inPods.toArray(String[]::new))).run(MpiRing.LIMIT);
        assertEquals(
                ring.apart(pods(), ROUNDS).sum(),
                MpiRing.Result.of(run.describe()).sum());
    }

    @Test
    void shouldSayWhatIsWrongWhenAHostHasNoPod() throws Exception {
        Path file = Files.writeString(ring.folder().resolve("wrong"), "pod1 1/ring\n");
        Command.CommandResult unknown = agent(file, "pod7", "true");
        assertTrue(unknown.output().contains("wrong has no line for host pod7"), unknown.describe());
        Command.CommandResult halfALine = agent(file, "-x", "-l", "somebody", "pod1", "true");
        assertTrue(halfALine.output().contains("the line of host pod1 has no pod or no socket"), halfALine.describe());
        Command.CommandResult noCommand = agent(file, "-x", "pod1");
        assertEquals(2, noCommand.exitCode(), noCommand.describe());
    }

    private static Command.CommandResult agent(Path file, String... words) throws Exception {
        List<String> all = new ArrayList<>(List.of("pod", "agent", "--pods", file.toString()));
        all.addAll(List.of(words));
        return Command.of(ServiceProcess.command(all.toArray(String[]::new))).run(MpiRing.LIMIT);
    }
}
