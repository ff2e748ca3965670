package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.pods.PodStatus;
import io.ppmr.pods.testbed.BridgedNode;
import io.ppmr.pods.testbed.MpiRing;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A job of Debian's Open MPI, unmodified, in pods of three nodes, with its launcher in one of them. It is checkpointed
 * as one, stopped, and restarted on other nodes.
 */
@Timeout(value = 900, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class MpiCheckpointIT {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String JOB = "1/mpi";
    private static final List<String> PODS = List.of("ring1", "ring2", "ring3");
    private static final int CHECKPOINTS = 5;
    private static final int PAUSE_US = 2000;

    private static Testbed testbed;
    private static MpiRing ring;
    private static final List<MovingNode> NODES = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(
                MpiCheckpointIT.class.getResource("/io/ppmr/cluster/job/JobRecord.class") != null,
                "needs the part for clusters");
        Optional<String> missing = MpiRing.whyNot("openmpi");
        Assumptions.assumeTrue(missing.isEmpty(), () -> missing.get() + " (./ppmr test installs it)");
        ring = MpiRing.create("openmpi");
        testbed = Testbed.create("mpi-checkpoint");
        Path checkpoints = Files.createDirectory(testbed.folder().resolve("ckpt"));
        String template = ring.template() + "checkpoints = \"" + checkpoints + "\"\n";
        BridgedNode hub = new MovingNode(testbed, 9, template).bridged();
        for (int number = 1; number <= PODS.size(); number++) {
            MovingNode node = new MovingNode(testbed, number, template);
            BridgedNode.connect(hub, node.bridged());
            NODES.add(node);
        }
        hub.startController();
        for (MovingNode node : NODES) {
            node.joinCluster("\"" + hub.controllerAddress() + "\"");
            node.start();
        }
    }

    @AfterAll
    static void end() throws Exception {
        NODES.clear();
        if (testbed != null) {
            testbed.close();
        }
        if (ring != null) {
            ring.close();
        }
    }

    /** Returns the file that ends the job as soon as it is there. Pods see it. */
    private static Path stop() {
        return ring.folder().resolve("stop");
    }

    /** Runs the pods, of which the first has the launcher. */
    private static void runPods() throws Exception {
        for (int i = PODS.size() - 1; i > 0; i--) {
            NODES.get(i).runMember("mpi", PODS.size(), PODS.get(i), "10.20.0.1" + (i + 1), "sleep", "infinity");
        }
        List<String> words = new ArrayList<>(ring.openMpiInside(PODS));
        words.addAll(List.of(ring.program("openmpi"), "1", Integer.toString(PAUSE_US), stop().toString()));
        // The pod, and the output in it, outlive the launcher.
        String line = String.join(" ", words) + "; echo \"mpirun ended with $?\"; exec sleep infinity";
        NODES.get(0).runMember("mpi", PODS.size(), PODS.get(0), "10.20.0.11", "sh", "-c", line);
    }

    /** Carries out what the launcher asks for, until it needs nothing more from outside. */
    private static void serve() throws Exception {
        Map<String, Path> sockets = new LinkedHashMap<>();
        for (int i = 0; i < PODS.size(); i++) {
            sockets.put(PODS.get(i), NODES.get(i).socket());
        }
        List<String> words = PpmrCommand.words(
                "pod",
                "agent",
                "--serve",
                "1/ring1",
                "--pods",
                ring.placesFromInside("1", sockets).toString());
        Path output = Files.createTempFile(testbed.folder(), "served", ".log");
        Process server = new ProcessBuilder(NODES.get(0).words(words.toArray(String[]::new)))
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        try {
            assertTrue(
                    server.waitFor(MpiRing.LIMIT.toSeconds(), TimeUnit.SECONDS),
                    () -> "the server does not end: " + said());
            assertEquals(0, server.exitValue(), Files.readString(output) + said());
        } finally {
            server.destroyForcibly();
        }
    }

    /** Returns the output of the launcher, wherever its pod runs. */
    private static String output() throws Exception {
        for (MovingNode node : NODES) {
            for (PodStatus pod : node.list("source")) {
                if (pod.name().equals("1/ring1")) {
                    return node.said(pod);
                }
            }
        }
        throw new IOException("the launcher's pod runs nowhere");
    }

    private static String said() {
        try {
            return output();
        } catch (Exception e) {
            return e.toString();
        }
    }

    private static long reports() throws Exception {
        String output = output();
        assertFalse(output.contains("mpirun ended"), output);
        return output.lines().filter(line -> line.startsWith("round")).count();
    }

    /** Waits until two hundred more rounds were made. */
    private static void requireMoreRounds() throws Exception {
        long wanted = reports() + 2;
        Conditions.until(MovingNode.LIMIT, "the ranks exchange blocks", () -> reports() >= wanted);
    }

    private static PpmrCommand job(String command, String... more) throws Exception {
        List<String> words = new ArrayList<>(
                List.of("job", command, "--socket", NODES.get(0).socket().toString(), JOB));
        words.addAll(List.of(more));
        return PpmrCommand.run(words.toArray(String[]::new));
    }

    private static JsonNode show() throws Exception {
        PpmrCommand shown = job("show", "--json");
        return shown.exitCode() == 0 ? JSON.readTree(shown.said()) : JSON.createObjectNode();
    }

    private static void stopPods() throws Exception {
        for (MovingNode node : NODES) {
            for (PodStatus pod : node.list("source")) {
                PpmrCommand stopped =
                        PpmrCommand.run("pod", "stop", "--socket", node.socket().toString(), pod.name());
                assertEquals(0, stopped.exitCode(), stopped.said());
            }
        }
    }

    @Test
    void shouldEndWithTheRightResultWhenItIsCheckpointedFiveTimesAndRestartedElsewhere() throws Exception {
        runPods();
        serve();
        requireMoreRounds();
        Conditions.until(
                MovingNode.LIMIT,
                "all pods are registered",
                () -> show().at("/registered").asInt() == PODS.size());
        List<String> held = new ArrayList<>();
        for (int i = 0; i < CHECKPOINTS; i++) {
            PpmrCommand checkpoint = job("checkpoint", "--json");
            assertEquals(0, checkpoint.exitCode(), checkpoint.said());
            held.add(JSON.readTree(checkpoint.said()).at("/held_ms").asText());
            requireMoreRounds();
        }
        stopPods();
        String[] elsewhere = {"--on", "bridged-2,bridged-3,bridged-1"};
        PpmrCommand restart = job("restart", elsewhere);
        // Until a source has noticed that its pods are gone, it is unknown where they run.
        for (int i = 0; i < 20 && restart.said().contains("runs on node"); i++) {
            restart = job("restart", elsewhere);
        }
        assertEquals(0, restart.exitCode(), restart.said());
        assertEquals(2, show().at("/incarnation").asInt());
        requireMoreRounds();
        Files.createFile(stop());
        Conditions.until(MpiRing.LIMIT, "the job ends", () -> output().contains("mpirun ended"));
        String output = output();
        assertTrue(output.contains("mpirun ended with 0"), output);
        MpiRing.Result result = MpiRing.Result.of(output);
        System.out.println("figure: an MPI job of three pods was held for " + held + " ms; it ended after "
                + result.rounds() + " rounds");
        assertEquals(ring.apart(PODS, result.rounds()).sum(), result.sum());
    }
}
