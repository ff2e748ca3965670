package io.ppmr.system;

import static io.ppmr.system.PodPair.requireMoreRounds;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.system.FaultMatrix.Cell;
import io.ppmr.system.PodPair.Memory;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The table of faults of a pod that moves. In each case one pod lives, with the connection to its peer. Or the pod is
 * lost with its node, and its address is free. {@code -Dppmr.fault=WORDS,WORDS} runs only the cases whose names contain
 * one of them.
 */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodFaultIT {
    /**
     * A column is the next step when the fault occurs. First, the original's veth pair is set down, CRIU dumps the
     * original, and CRIU restores it. Then the target has voted. Then the decision is on the disk, and the original's
     * veth pair will be deleted. Then the copy's veth pair is set up. Last, the copy's address is announced, and the
     * copy continues after that.
     */
    static final String TABLE = """
            | Fault | cable out | dump | restore | vote | decision | cable in | announcement |
            |---|---|---|---|---|---|---|---|
            | source service | (here) | (here) | (here) | (here) | (there) | (there) | (there) |
            | target service | (here) | (here) | (here) | (here) | (there) | there | (there) |
            | both services | (here) | (here) | (here) | (here) | (there) | (there) | (there) |
            | source node | (nowhere) | (nowhere) | (nowhere) | (there) | (there) | (there) | (there) |
            | target node | (here) | (here) | (here) | (here) | (nowhere) | (nowhere) | (nowhere) |
            | CRIU | - | here | here | - | - | - | - |
            | streamed, page relay of the source | - | - | (here) | - | - | - | - |
            | streamed, page relay of the target | - | - | (here) | - | - | - | - |
            | streamed, CRIU that serves pages | - | - | here | - | - | - | - |
            | streamed, holder of the copy's memory | - | - | (here) | - | - | - | - |
            """;

    private static final String CLIENT = "1/client";
    private static final String SOURCE_NODE = "source node";
    private static final int LINES = 60;
    private static final String FENCE = """
            [fence]
            command = ["sh", "-c", 'while [ ! -e %1$s/off ]; do sleep 0.05; done']
            delay = "1s"
            deadline = "60s"
            """;

    private static Testbed testbed;
    private static MovingNode a;
    private static MovingNode b;

    private PodPair pair;
    private String migration;
    private CompletableFuture<PpmrCommand> moving;

    @BeforeAll
    static void requireWhatItNeeds() throws Exception {
        MovingNode.assumePossible();
    }

    private static void makeNodes() throws Exception {
        if (testbed == null) {
            testbed = Testbed.create("podfault");
            a = new MovingNode(testbed, 1);
            b = new MovingNode(testbed, 2);
            MovingNode.connect(a, b);
            a.useHeldTools();
            b.useHeldTools();
            a.startSource();
            b.start();
        }
    }

    @AfterAll
    static void dropNodes() throws IOException {
        if (testbed != null) {
            Testbed old = testbed;
            testbed = null;
            old.close();
        }
    }

    /** Restores the state before a case, so that a failure does not affect the next case. */
    private static void putInOrder() throws Exception {
        a.forgetFaults();
        b.forgetFaults();
        if (Files.deleteIfExists(b.folder().resolve("off"))) {
            b.target().kill();
            b.startTarget("");
        }
        for (MovingNode node : List.of(a, b)) {
            for (PodStatus pod : node.list(serviceOf(node))) {
                String socket = node.folder().resolve(serviceOf(node) + ".sock").toString();
                PpmrCommand stopped = PpmrCommand.run("pod", "stop", "--socket", socket, pod.name());
                // A pod whose peer was stopped before may have ended without a request.
                assertTrue(
                        stopped.exitCode() == 0
                                || node.list(serviceOf(node)).stream()
                                        .noneMatch(left -> left.name().equals(pod.name())),
                        stopped.said());
            }
        }
    }

    /** The service that the test leaves running on a node in the end. */
    private static String serviceOf(MovingNode node) {
        return node == a ? "source" : "target";
    }

    private static Stream<Cell> cases(boolean longRun) {
        List<String> words = List.of(System.getProperty("ppmr.fault", "").split(",", -1));
        return FaultMatrix.cells(TABLE).stream()
                .filter(one ->
                        one.onlyInTheLongRun() == longRun && words.stream().anyMatch(one.toString()::contains));
    }

    private static Stream<Cell> usual() {
        return cases(false);
    }

    private static Stream<Cell> others() {
        return cases(true);
    }

    @Tag("soak")
    @ParameterizedTest(name = "{0}")
    @MethodSource("usual")
    void shouldLiveOnceOrLeaveItsAddressWhen(Cell given) throws Exception {
        run(given);
    }

    @Tag("soak")
    @ParameterizedTest(name = "{0}")
    @MethodSource("others")
    void shouldLiveOnceOrLeaveItsAddressAlsoWhen(Cell given) throws Exception {
        run(given);
    }

    @Test
    void shouldStandInTheDocumentationWhenACaseIsAdded() throws Exception {
        Path page = Path.of(System.getProperty("ppmr.home"), "docs/internals/pods.md");
        assertTrue(Files.readString(page).contains(TABLE), page + " is to have the table of PodFaultIT");
    }

    // ---- a case ----------------------------------------------------------------------------------------------------

    private void run(Cell given) throws Exception {
        long startNs = System.nanoTime();
        makeNodes();
        boolean wentWell = false;
        try {
            bringAbout(given);
            if (given.row().equals(SOURCE_NODE)) {
                dropNodes();
            } else {
                putInOrder();
            }
            wentWell = true;
            System.out.printf(
                    "faults of pods: %s, as promised (%d ms)%n", given, (System.nanoTime() - startNs) / 1_000_000);
        } finally {
            if (!wentWell) {
                System.out.printf(
                        "faults of pods: %s: BROKEN%n--- source%n%s%n--- target%n%s%n",
                        given, a.source().logEnd(LINES), b.target().logEnd(LINES));
                dropNodes();
            }
        }
    }

    private void bringAbout(Cell given) throws Exception {
        if (given.row().equals(SOURCE_NODE)) {
            b.target().kill();
            b.startTarget(FENCE.formatted(b.folder()));
        }
        pair = PodPair.start(a, b, given.row().startsWith("streamed") ? Memory.LARGE : Memory.SMALL);
        if (given.row().equals("CRIU")) {
            (given.column().equals("dump") ? a : b).killCriu(given.column());
            move();
        } else {
            comesTo(given.column());
            fails(given);
        }
        requireEnd(given, moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS));
    }

    private void move() {
        moving = CompletableFuture.supplyAsync(() -> {
            try {
                return a.move(CLIENT, b);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
    }

    /** The node whose tools wait at a step, and the step's name there. The vote is no step of a tool. */
    private record Place(MovingNode node, String step) {
        static Place of(String column) {
            return switch (column) {
                case "cable out" -> new Place(a, "cable-out");
                case "dump" -> new Place(a, "dump");
                case "restore", "vote" -> new Place(b, "restore");
                case "decision" -> new Place(a, "cut");
                case "cable in" -> new Place(b, "cable-in");
                case "announcement" -> new Place(b, "announce");
                default -> throw new AssertionError("no step " + column);
            };
        }
    }

    private void comesTo(String column) throws Exception {
        Place place = Place.of(column);
        place.node().hold(place.step());
        move();
        place.node().awaitHeld(place.step());
        migration = a.records("source").stream()
                .filter(TransactionRecord.Begun.class::isInstance)
                .reduce((first, second) -> second)
                .orElseThrow()
                .migrationId();
        if (column.equals("vote")) {
            b.awaitWholeImage(migration);
            a.source().freeze();
            place.node().letGo(place.step());
            b.awaitRecord("target", migration, TransactionRecord.PreparedHere.class);
        }
    }

    private void fails(Cell given) throws Exception {
        Place place = Place.of(given.column());
        switch (given.row()) {
            case "source service" -> servicesKilled(place, true, false);
            case "target service" -> servicesKilled(place, false, true);
            case "both services" -> servicesKilled(place, true, true);
            case SOURCE_NODE -> sourceNodeLost(place);
            case "target node" -> targetNodeLost(place);
            case "streamed, page relay of the source" -> programKilled(place, a, "ppmr-pages source (ppmr-pages)");
            case "streamed, page relay of the target" -> programKilled(place, b, "ppmr-pages target (ppmr-pages)");
            case "streamed, CRIU that serves pages" -> programKilled(place, a, "criu dump");
            case "streamed, holder of the copy's memory" -> programKilled(place, b, HOLDER);
            default -> throw new AssertionError("nothing brings about " + given);
        }
    }

    private static void servicesKilled(Place place, boolean source, boolean target) throws Exception {
        if (source) {
            a.source().kill();
        }
        if (target) {
            b.target().kill();
        }
        place.node().letGo(place.step());
        if (target) {
            b.startTarget("");
        }
        if (source) {
            a.startSource();
        } else {
            a.source().thaw();
        }
    }

    /** It stays lost: its network is what the pod's end of the cable was plugged into. */
    private void sourceNodeLost(Place place) throws Exception {
        a.source().kill();
        a.loseAllOf(pair.client());
        place.node().letGo(place.step());
        Files.createFile(b.folder().resolve("off"));
    }

    /** The node returns empty, except for the peer, which represents a peer on another node. */
    private void targetNodeLost(Place place) throws Exception {
        b.target().kill();
        b.loseAllOf(pair.client());
        place.node().letGo(place.step());
        b.startTarget("");
        a.source().thaw();
    }

    private static void programKilled(Place place, MovingNode node, String words) throws Exception {
        Conditions.until(
                MovingNode.LIMIT, words + " runs", () -> !running(node, words).isEmpty());
        running(node, words).forEach(ProcessHandle::destroyForcibly);
        place.node().letGo(place.step());
    }

    /** The holder is a child of {@code ppmr-pages target}, with its command line and another name. */
    private static final String HOLDER = "ppmr-pages target (ppmr-holder)";

    /** Finds a program by its own words, which precede those of its children, and by the folder of the node. */
    private static List<ProcessHandle> running(MovingNode node, String words) {
        return ProcessHandle.allProcesses()
                .filter(process -> {
                    String line = commandLine(process.pid());
                    if (line.contains("ppmr-pages")) {
                        line = line.replaceFirst("ppmr-pages (source|target)", "$0 (" + name(process.pid()) + ")");
                    }
                    return line.contains(node.folder() + "/")
                            && line.contains(words)
                            && !line.contains("ppmr-launch")
                            && line.contains("ppmr-pages") == words.startsWith("ppmr-pages");
                })
                .toList();
    }

    private static String name(long pid) {
        try {
            return Files.readString(Path.of("/proc/" + pid + "/comm"), StandardCharsets.ISO_8859_1)
                    .strip();
        } catch (IOException gone) {
            return "";
        }
    }

    private static String commandLine(long pid) {
        try {
            return Files.readString(Path.of("/proc/" + pid + "/cmdline"), StandardCharsets.ISO_8859_1)
                    .replace('\0', ' ');
        } catch (IOException gone) {
            return "";
        }
    }

    // ---- its end ---------------------------------------------------------------------------------------------------

    private void requireEnd(Cell given, PpmrCommand said) throws Exception {
        boolean sourceLost = given.row().equals(SOURCE_NODE);
        switch (given.end()) {
            case HERE -> {
                requireLives(a, said);
                requireFree(b, said);
            }
            case THERE -> {
                requireLives(b, said);
                if (!sourceLost) {
                    requireFree(a, said);
                }
            }
            case NOWHERE -> {
                requireFree(b, said);
                if (!sourceLost) {
                    requireFree(a, said);
                }
                requireAddressCanBeHad(sourceLost ? b : a);
            }
            default -> throw new AssertionError("no pod ends " + given.end());
        }
    }

    /** Waits until a node has it and no migration holds it. Then its connection continues. */
    private static void requireLives(MovingNode node, PpmrCommand said) throws Exception {
        Conditions.until(
                MovingNode.LIMIT,
                "node " + node.endpoint() + " has the pod and no migration has it: " + said.said(),
                () -> find(node).count() == 1
                        && node.journal("1-client").path("move").isNull());
        PodStatus pod = find(node).findFirst().orElseThrow();
        requireMoreRounds(node, pod);
        assertFalse(node.said(pod).contains("wrong"), node.said(pod));
    }

    private static Stream<PodStatus> find(MovingNode node) throws Exception {
        return node.list(serviceOf(node)).stream().filter(pod -> pod.name().equals(CLIENT));
    }

    private void requireFree(MovingNode node, PpmrCommand said) throws Exception {
        Conditions.until(
                MovingNode.LIMIT,
                "nothing of the pod is on node " + node.endpoint() + ": " + said.said(),
                () -> find(node).findAny().isEmpty()
                        && !Files.exists(node.folder().resolve("pods/1-client"))
                        && !node.hasLink(pair.client().link()));
    }

    /** Another pod has its name and its address. */
    private void requireAddressCanBeHad(MovingNode node) throws Exception {
        PodStatus next = node.runPodAt("client", pair.client().address(), "sleep", "600");
        assertEquals("running", next.state());
    }
}
