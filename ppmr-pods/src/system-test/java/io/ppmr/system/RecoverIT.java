package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.pods.PodStatus;
import io.ppmr.pods.testbed.BridgedNode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;

/**
 * A ring of three pods over three nodes, of which nodes are lost. Each time it continues from its last set: on living
 * nodes in place, and on a spare. Each node has a directory of checkpoints of its own, and all share the one of copies.
 * Each test uses the nodes that the one before has left.
 */
@Timeout(value = 900, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class RecoverIT {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String JOB = "1/ring";
    private static final List<String> ADDRESSES = List.of("10.20.0.11", "10.20.0.12", "10.20.0.13");
    private static final int NODES = 5;
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(20));

    private static Testbed testbed;
    private static BridgedNode hub;
    private static ServiceProcess controller;
    /** The directory in which each node has the shared filesystem of copies. */
    private static final Map<MovingNode, Path> COPIES = new HashMap<>();
    /** The nodes that live. */
    private static final List<MovingNode> LIVING = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(hasCluster(), "needs the part for clusters");
        testbed = Testbed.create("recover");
        Files.createDirectory(testbed.folder().resolve("shared"));
        hub = new MovingNode(testbed, 9, "tmp = \"8m\"").bridged();
        for (int number = 1; number <= NODES; number++) {
            Path checkpoints = Files.createDirectory(testbed.folder().resolve("ckpt-" + number));
            Path copies = Files.createDirectory(testbed.folder().resolve("copies-" + number));
            String template =
                    "tmp = \"8m\"\nshm = \"8m\"\ncheckpoints = \"" + checkpoints + "\"\ncopies = \"" + copies + "\"";
            MovingNode node = new MovingNode(testbed, number, template);
            COPIES.put(node, copies);
            mountCopies(node);
            BridgedNode.connect(hub, node.bridged());
            node.joinCluster("\"" + hub.controllerAddress() + "\"");
            node.useHeldTools();
            LIVING.add(node);
        }
        startController();
        for (MovingNode node : LIVING) {
            node.start();
        }
        for (int i = 0; i < ADDRESSES.size(); i++) {
            LIVING.get(i)
                    .runMember(
                            "ring",
                            ADDRESSES.size(),
                            "p" + i,
                            ADDRESSES.get(i),
                            "perl",
                            "-e",
                            JobCheckpointIT.RING,
                            Integer.toString(i),
                            ADDRESSES.get((i + 1) % ADDRESSES.size()));
        }
        requireMoreBlocks();
        Conditions.until(
                MovingNode.LIMIT,
                "all pods are registered",
                () -> show().at("/registered").asInt() == ADDRESSES.size());
    }

    private static void mountCopies(MovingNode node) throws Exception {
        String shared = testbed.folder().resolve("shared").toString();
        node.bridged()
                .node()
                .run(LIMIT, "mount", "--bind", shared, COPIES.get(node).toString());
    }

    private static void unmountCopies(MovingNode node) throws Exception {
        node.bridged().node().run(LIMIT, "umount", COPIES.get(node).toString());
    }

    /** The fence command proves a node off that a test ended before. */
    private static void startController() throws Exception {
        controller = hub.startController("""
                [fence]
                command = ["sh", "-c", 'until [ -e %s/dead-{node} ]; do sleep 0.1; done']
                delay = "2s"
                """.formatted(testbed.folder()));
    }

    private static boolean hasCluster() {
        return RecoverIT.class.getResource("/io/ppmr/cluster/job/JobRecord.class") != null;
    }

    @AfterAll
    static void end() throws IOException {
        LIVING.clear();
        if (testbed != null) {
            testbed.close();
        }
    }

    private static String[] words(String command, String... more) {
        List<String> words = new ArrayList<>(
                List.of("job", command, "--socket", LIVING.get(0).socket().toString(), JOB));
        words.addAll(List.of(more));
        return words.toArray(String[]::new);
    }

    private static JsonNode show() throws Exception {
        PpmrCommand shown = PpmrCommand.run(words("show", "--json"));
        return shown.exitCode() == 0 ? JSON.readTree(shown.said()) : JSON.createObjectNode();
    }

    private static void checkpoint() throws Exception {
        Conditions.until(
                MovingNode.LIMIT,
                "the job is checkpointed",
                () -> PpmrCommand.run(words("checkpoint")).exitCode() == 0);
        Conditions.until(
                MovingNode.LIMIT,
                "the set is safe",
                () -> show().findValuesAsText("state").contains("safe")
                        && !show().findValuesAsText("state").contains("copying"));
    }

    /** A pod, and the node on which it runs. */
    private record Found(MovingNode node, PodStatus status) {}

    /** Finds a pod wherever it runs, which is one node. */
    private static Found find(int pod) throws Exception {
        List<Found> found = new ArrayList<>();
        for (MovingNode node : LIVING) {
            node.list("source").stream()
                    .filter(one -> one.name().endsWith("/p" + pod))
                    .forEach(one -> found.add(new Found(node, one)));
        }
        if (found.size() != 1) {
            throw new IOException("pod p" + pod + " runs on " + found.size() + " nodes");
        }
        return found.get(0);
    }

    private static long blocks(int pod) throws Exception {
        Found found = find(pod);
        String output = found.node().said(found.status());
        assertFalse(output.contains("FAILED"), () -> "pod p" + pod + ": " + output);
        return output.lines()
                .filter(line -> line.startsWith("round"))
                .mapToLong(line -> Long.parseLong(line.substring(6)))
                .max()
                .orElse(0);
    }

    /** Waits until each pod has received forty more right blocks. */
    private static void requireMoreBlocks() throws Exception {
        for (int i = 0; i < ADDRESSES.size(); i++) {
            int pod = i;
            long before = blocks(pod);
            Conditions.until(MovingNode.LIMIT, "pod p" + pod + " receives blocks", () -> blocks(pod) >= before + 40);
        }
    }

    private static void lose(MovingNode node) throws Exception {
        LIVING.remove(node);
        node.bridged().node().kill();
        Files.createFile(testbed.folder().resolve("dead-" + node.host()));
    }

    private static PpmrCommand nodes(String... words) throws Exception {
        List<String> all = new ArrayList<>(List.of("nodes"));
        all.addAll(List.of(words));
        all.addAll(List.of("--socket", hub.folder().resolve("controller.sock").toString()));
        return PpmrCommand.run(all.toArray(String[]::new));
    }

    private static void awaitOff(MovingNode node) throws Exception {
        Conditions.until(MovingNode.LIMIT, node.host() + " is off", () -> {
            PpmrCommand shown = nodes("--json");
            boolean isOff = false;
            for (JsonNode one : JSON.readTree(shown.exitCode() == 0 ? shown.said() : "[]")) {
                isOff |= one.at("/host").asText().equals(node.host())
                        && one.at("/state").asText().equals("off");
            }
            return isOff;
        });
    }

    /** An operator reports a node, as soon as its sessions ended. */
    private static void reportOff(MovingNode node) throws Exception {
        Conditions.until(
                MovingNode.LIMIT,
                "the node is reported off",
                () -> nodes("off", node.host()).exitCode() == 0);
    }

    /** Recovers the job. Until all is known of a loss, that is refused. */
    private static PpmrCommand recover(String... more) throws Exception {
        PpmrCommand[] last = new PpmrCommand[1];
        try {
            Conditions.until(MovingNode.LIMIT, "the recovery is not refused", () -> {
                last[0] = PpmrCommand.run(words("recover", more));
                return last[0].exitCode() != 4;
            });
        } catch (TimeoutException e) {
            throw new AssertionError("the recovery is refused: " + last[0].said() + controllerLog(), e);
        }
        return last[0];
    }

    private static void requireRecovered(PpmrCommand recovered) throws Exception {
        assertEquals(0, recovered.exitCode(), () -> recovered.said() + controllerLog());
        requireMoreBlocks();
    }

    private static String controllerLog() {
        try {
            return "\n" + controller.logEnd(40);
        } catch (IOException e) {
            return e.toString();
        }
    }

    private static CompletableFuture<PpmrCommand> beginRecovery() {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return recover();
            } catch (Exception e) {
                throw new CompletionException(e);
            }
        });
    }

    @Test
    @Order(1)
    void shouldContinueFromItsLastSetWhenANodeIsLostAndFenced() throws Exception {
        checkpoint();
        MovingNode lost = find(1).node();
        MovingNode first = find(0).node();
        MovingNode third = find(2).node();
        // Living nodes read their own disks alone.
        unmountCopies(first);
        unmountCopies(third);
        lose(lost);
        awaitOff(lost);
        long beganNs = System.nanoTime();
        PpmrCommand recovered = recover("--json");
        requireRecovered(recovered);
        System.out.println("recovered in " + TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - beganNs) + " ms: "
                + recovered.said());
        JsonNode outcome = JSON.readTree(recovered.said());
        assertEquals("[\"" + lost.host() + "\"]", outcome.at("/lost").toString());
        assertEquals(1, outcome.at("/spares").size());
        assertTrue(
                outcome.at("/end_ms").asLong() > 0 && outcome.at("/restore_ms").asLong() > 0, recovered.said());
        mountCopies(first);
        mountCopies(third);
        assertEquals(first, find(0).node(), "living nodes keep their pods");
        assertEquals("recovered", show().at("/last/outcome").asText());
        assertEquals(2, show().at("/incarnation").asInt());
        checkpoint();
    }

    /** It has the key of all services, and could end the ranks of each job. */
    @Test
    @Tag("soak")
    @Order(2)
    void shouldRefuseARecoveryThatAnotherNodeOrders() throws Exception {
        List<MovingNode> spares = new ArrayList<>(LIVING);
        for (int pod = 0; pod < ADDRESSES.size(); pod++) {
            spares.remove(find(pod).node());
        }
        PpmrCommand refused = PpmrCommand.run(
                "job", "recover", "--socket", spares.get(0).socket().toString(), JOB);
        assertTrue(refused.exitCode() == 4 && refused.said().contains("has no pods of the job"), refused.said());
        requireMoreBlocks();
    }

    /** No node is lost: all pods end, and are restored in place. The controller dies while they end. */
    @Test
    @Tag("soak")
    @Order(3)
    void shouldContinueWhenTheControllerIsKilledWhilePodsEnd() throws Exception {
        MovingNode held = find(2).node();
        held.hold("cut");
        CompletableFuture<PpmrCommand> recovery = beginRecovery();
        held.awaitHeld("cut");
        controller.kill();
        startController();
        held.letGo("cut");
        requireRecovered(recovery.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS));
        assertEquals(held, find(2).node());
        checkpoint();
    }

    /** One node has lost its images, and another one has an image that is damaged in one byte. */
    @Test
    @Tag("soak")
    @Order(4)
    void shouldTakeImagesFromTheSecondPlaceWhenTheFirstOneHasNoWholeOnes() throws Exception {
        Path near = testbed.folder().resolve("ckpt-" + numberOf(find(0).node()));
        try (Stream<Path> images = Files.walk(near)) {
            for (Path one : images.sorted(Comparator.reverseOrder()).toList()) {
                if (!one.equals(near)) {
                    Files.delete(one);
                }
            }
        }
        Path damaged;
        try (Stream<Path> images = Files.walk(testbed.folder().resolve("ckpt-" + numberOf(find(1).node())))) {
            damaged = images.filter(one -> one.getFileName().toString().startsWith("pages-"))
                    .filter(one -> one.toString().contains("/p1/"))
                    .max(Comparator.naturalOrder())
                    .orElseThrow();
        }
        byte[] bytes = Files.readAllBytes(damaged);
        bytes[bytes.length / 2] ^= 1;
        Files.write(damaged, bytes);
        MovingNode holder = find(1).node();
        requireRecovered(recover());
        assertTrue(
                holder.target().log().contains("cannot be used, and the next directory is tried"),
                "the log names the damaged image");
        checkpoint();
    }

    /** The directory of copies is another one on each node. So all images are copied, and no node can read them all. */
    @Test
    @Tag("soak")
    @Order(5)
    void shouldNotCallASetSafeWhenNodesDoNotShareTheSecondPlace() throws Exception {
        for (MovingNode node : LIVING) {
            unmountCopies(node);
        }
        Conditions.until(
                MovingNode.LIMIT,
                "the job is checkpointed",
                () -> PpmrCommand.run(words("checkpoint")).exitCode() == 0);
        Conditions.until(MovingNode.LIMIT, "the controller names the directory", () -> controller
                .log()
                .contains("no other node sees all images"));
        assertEquals(
                "copying",
                show().at("/sets")
                        .get(show().at("/sets").size() - 1)
                        .at("/state")
                        .asText());
        for (MovingNode node : LIVING) {
            mountCopies(node);
        }
        Conditions.until(MovingNode.LIMIT, "the set is safe", () -> !show().findValuesAsText("state")
                .contains("copying"));
    }

    private static int numberOf(MovingNode node) {
        return Integer.parseInt(COPIES.get(node).getFileName().toString().substring("copies-".length()));
    }

    @Test
    @Tag("soak")
    @Order(6)
    void shouldContinueWhenATargetIsKilledWhilePodsAreReleased() throws Exception {
        MovingNode lost = find(2).node();
        MovingNode killed = find(0).node();
        lose(lost);
        reportOff(lost);
        killed.hold("cable-in");
        CompletableFuture<PpmrCommand> recovery = beginRecovery();
        killed.awaitHeld("cable-in");
        killed.target().kill();
        killed.letGo("cable-in");
        killed.startTarget("");
        requireRecovered(recovery.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS));
        assertEquals(killed, find(0).node());
    }

    @Test
    @Tag("soak")
    @Order(7)
    void shouldRefuseANodeNamedOffThatAnswersAndALossWithoutASpare() throws Exception {
        checkpoint();
        MovingNode living = find(1).node();
        PpmrCommand alive = PpmrCommand.run(
                "job",
                "recover",
                "--socket",
                hub.folder().resolve("controller.sock").toString(),
                JOB,
                "--off",
                living.host());
        assertTrue(alive.exitCode() == 4 && alive.said().contains("have a session now"), alive.said());
        PpmrCommand elsewhere = PpmrCommand.run(words("recover", "--off", living.host()));
        assertTrue(elsewhere.exitCode() == 4 && elsewhere.said().contains("only an operator"), elsewhere.said());
        String asOther = LIVING.get(0).askAs(2, "{\"request\": \"job_recover\", \"job\": \"1/ring\"}");
        assertTrue(asOther.contains("you have no job of that name"), asOther);
        lose(living);
        reportOff(living);
        Conditions.until(MovingNode.LIMIT, "the recovery names what is missing", () -> PpmrCommand.run(words("recover"))
                .said()
                .contains("no spare node can read the image"));
    }
}
