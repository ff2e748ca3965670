package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.pods.PodOrder;
import io.ppmr.os.Command;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Debian's Open MPI and MPICH over pods of three nodes, started by {@code ppmr pod agent} in the place of ssh. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MpiPodsIT {
    private static final Duration LIMIT = Patience.of(Duration.ofMinutes(2));
    private static final int NODES = 3;
    private static final String RANKS = "6";
    private static final String HOSTS = "pod1:2,pod2:2,pod3:2";
    /** Some runs of Debian's MPICH hang in MPI_Finalize, whoever starts them: the result is out by then. */
    private static final String HUNG_S = "40";

    private static final Pattern RESULT = Pattern.compile("result ([0-9a-f]{16}), longest gap ([0-9.]+) s");

    private static Testbed testbed;
    private static final List<PodNode> NODE = new ArrayList<>();
    private static Path programs;
    private static Path ppmr;

    @BeforeAll
    static void start() throws Exception {
        PodNode.assumePossible();
        Assumptions.assumeTrue(
                Command.of(List.of("sh", "-c", "command -v mpicc.openmpi && command -v mpicc.mpich"))
                        .run(LIMIT)
                        .succeeded(),
                "needs Open MPI and MPICH, whose packages ./ppmr test installs");
        testbed = Testbed.create("mpi");
        // Pods have a /tmp of their own.
        programs = Files.createTempDirectory(Path.of("/opt"), "ppmr-mpi");
        Files.setPosixFilePermissions(programs, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path source = Path.of(System.getProperty("ppmr.home"), "ppmr-checkpoint/src/test/c/mpi-ring.c");
        for (String mpi : List.of("openmpi", "mpich")) {
            Command.of(List.of("mpicc." + mpi, "-O2", "-Wall", "-o", ring(mpi), source.toString()))
                    .run(LIMIT)
                    .requireOutput();
        }
        ppmr = script("ppmr", "'" + String.join("' '", ServiceProcess.command()) + "'");
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
                    tmp = "64m"
                    shm = "64m"
                    mounts = ["/usr", "/etc", "/bin", "/lib", "/lib64", "%2$s"]
                    """.formatted(number, programs));
        }
        NODE.get(0).run("ip", "address", "add", "10.20.0.1/24", "dev", "br0");
    }

    @BeforeEach
    void runPods() throws Exception {
        for (PodNode node : NODE) {
            PodOrder order =
                    new PodOrder("ring", "mpi", null, "1", null, null, null, null, null, List.of("sleep", "infinity"));
            try (ControlClient client = new ControlClient(node.socket())) {
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
            Command.of(List.of("rm", "-r", programs.toString())).run(LIMIT);
        }
    }

    private static String ring(String mpi) {
        return programs.resolve("mpi-ring-" + mpi).toString();
    }

    private static Path script(String name, String command) throws IOException {
        Path script = Files.writeString(programs.resolve(name), "#!/bin/sh\nexec " + command + " \"$@\"\n");
        return Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    /** Writes where the pods are, and gives the file. */
    private static Path pods() throws IOException {
        StringBuilder pods = new StringBuilder("# of this test\n");
        for (int i = 0; i < NODES; i++) {
            pods.append("pod")
                    .append(i + 1)
                    .append(" 1/ring ")
                    .append(NODE.get(i).socket());
            // The first node's agent talks to its service itself. The others' files are all on this machine, sockets
            // too.
            if (i > 0) {
                pods.append(' ').append(ppmr);
            }
            pods.append('\n');
        }
        return Files.writeString(programs.resolve("pods"), pods);
    }

    private static List<String> openMpi() throws IOException {
        List<String> words = new ArrayList<>(List.of("mpirun.openmpi", "--allow-run-as-root"));
        words.addAll(List.of("--mca", "plm_rsh_agent", ppmr + " pod agent --pods " + pods()));
        words.addAll(List.of("--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl", "tcp,self"));
        words.addAll(List.of("--mca", "btl_tcp_if_include", "10.20.0.0/24"));
        words.addAll(List.of("--mca", "oob_tcp_if_include", "10.20.0.0/24"));
        words.addAll(List.of("--host", HOSTS, "-np", RANKS));
        return words;
    }

    private static List<String> mpich() throws IOException {
        Path agent = script("agent", ppmr + " pod agent");
        List<String> words = new ArrayList<>(List.of("env", "PPMR_PODS=" + pods(), "timeout", HUNG_S, "mpiexec.hydra"));
        words.addAll(List.of("-launcher", "ssh", "-launcher-exec", agent.toString(), "-localhost", "10.20.0.1"));
        words.addAll(List.of("-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0"));
        words.addAll(List.of("-hosts", HOSTS, "-np", RANKS));
        return words;
    }

    @ParameterizedTest
    @ValueSource(strings = {"openmpi", "mpich"})
    void shouldComputeTheRightResultWhenItsRanksAreInPodsOfThreeNodes(String mpi) throws Exception {
        List<String> apart = new ArrayList<>(List.of("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"));
        apart.addAll(List.of("--mca", "btl", "tcp,self", "-np", RANKS, ring("openmpi"), "50", "0"));
        List<String> inPods = mpi.equals("mpich") ? mpich() : openMpi();
        inPods.addAll(List.of(ring(mpi), "50", "0"));
        assertEquals(
                result(Command.of(apart).run(LIMIT)),
                result(Command.of(NODE.get(0).words(inPods.toArray(String[]::new)))
                        .run(LIMIT)),
                "the sum over all that was received");
    }

    @Test
    void shouldSayWhatIsWrongWhenAHostHasNoPod() throws Exception {
        Path file = Files.writeString(programs.resolve("wrong"), "pod1 1/ring\n");
        Command.Result unknown = agent(file, "pod7", "true");
        assertTrue(unknown.output().contains("wrong has no line for host pod7"), unknown.describe());
        Command.Result halfALine = agent(file, "-x", "-l", "somebody", "pod1", "true");
        assertTrue(halfALine.output().contains("the line of host pod1 has no pod or no socket"), halfALine.describe());
        Command.Result noCommand = agent(file, "-x", "pod1");
        assertEquals(2, noCommand.exitCode(), noCommand.describe());
    }

    private static Command.Result agent(Path file, String... words) throws Exception {
        List<String> all = new ArrayList<>(List.of("pod", "agent", "--pods", file.toString()));
        all.addAll(List.of(words));
        return Command.of(ServiceProcess.command(all.toArray(String[]::new))).run(LIMIT);
    }

    private static String result(Command.Result run) {
        Matcher result = RESULT.matcher(run.output());
        assertTrue(result.find(), run.describe());
        return result.group(1);
    }
}
