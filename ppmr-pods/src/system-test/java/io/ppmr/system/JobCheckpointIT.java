package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.pods.PodStatus;
import io.ppmr.pods.testbed.BridgedNode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
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

/**
 * A job over three nodes, of three pods in a ring of TCP connections, over which blocks go that each pod checks. A
 * block
 * that is missing, or comes twice, is a wrong one. The nodes share the directory of checkpoints.
 */
@Timeout(value = 900, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class JobCheckpointIT {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String JOB = "1/ring";
    private static final List<String> ADDRESSES = List.of("10.20.0.11", "10.20.0.12", "10.20.0.13");

    /** The first pod makes blocks, up to eight at a time on their way. The others check them, and pass them on. */
    static final String RING = """
            use IO::Socket::INET; $| = 1; $SIG{PIPE} = "IGNORE";
            my ($me, $next) = @ARGV; my $out;
            my $all = IO::Socket::INET->new(Listen => 5, LocalPort => 7000, ReuseAddr => 1) or die "listen: $!";
            for (1 .. 600) { $out = IO::Socket::INET->new("$next:7000") and last; select undef, undef, undef, 0.1 }
            # A process of the third pod that stops itself, and prints if it is continued.
            if ($me == 2 && !fork) { kill "STOP", $$; while (1) { print "continued\n"; sleep 1 } }
            sub fail { print "FAILED: $_[0]\n"; sleep 600; exit 1 }
            $out or fail "no connection"; my $in = $all->accept; print "connected\n";
            sub block { pack "N*", map { $_[0] * $_ } 1 .. 2048 }
            sub put {
                for (my $at = 0; $at < 8192; ) {
                    my $count = syswrite $out, $_[0], 8192 - $at, $at; defined $count or fail "write: $!";
                    $at += $count;
                }
            }
            sub get {
                my $block = "";
                while (length $block < 8192) {
                    sysread $in, $block, 8192 - length $block, length $block or fail "read: $!";
                }
                $block;
            }
            my ($sent, $number) = (0, 0);
            while (1) {
                while ($me == 0 && $sent < $number + 8) { put block(++$sent) }
                my $block = get; $number++;
                $block eq block($number) or fail "block $number is wrong";
                put $block if $me;
                print "round $number\n" if $number % 20 == 0;
                select undef, undef, undef, 0.003 if $me == 0;
            }
            """;

    private static Testbed testbed;
    private static Path checkpoints;
    private static BridgedNode hub;
    private static ServiceProcess controller;
    /** The nodes on which the job begins. */
    private static final List<MovingNode> NODES = new ArrayList<>();
    /** Those, and further ones. */
    private static final List<MovingNode> ALL = new ArrayList<>();

    private static String template;

    private final List<PodStatus> pods = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(hasCluster(), "needs the part for clusters");
        testbed = Testbed.create("job-checkpoint");
        checkpoints = Files.createDirectory(testbed.folder().resolve("ckpt"));
        template = "tmp = \"8m\"\nshm = \"8m\"\ncheckpoints = \"" + checkpoints + "\"";
        hub = new MovingNode(testbed, 9, template).bridged();
        for (int number = 1; number <= ADDRESSES.size(); number++) {
            NODES.add(makeNode(number));
        }
        controller = hub.startController();
        for (MovingNode node : NODES) {
            node.start();
        }
    }

    private static MovingNode makeNode(int number) throws Exception {
        MovingNode node = new MovingNode(testbed, number, template);
        BridgedNode.connect(hub, node.bridged());
        node.joinCluster("\"" + hub.controllerAddress() + "\"");
        ALL.add(node);
        return node;
    }

    private static boolean hasCluster() {
        return JobCheckpointIT.class.getResource("/io/ppmr/cluster/job/JobRecord.class") != null;
    }

    @AfterAll
    static void end() throws IOException {
        NODES.clear();
        ALL.clear();
        if (testbed != null) {
            testbed.close();
        }
    }

    @BeforeEach
    void startJob() throws Exception {
        for (int i = 0; i < NODES.size(); i++) {
            pods.add(NODES.get(i)
                    .runMember(
                            "ring",
                            NODES.size(),
                            "p" + i,
                            ADDRESSES.get(i),
                            "perl",
                            "-e",
                            RING,
                            Integer.toString(i),
                            ADDRESSES.get((i + 1) % ADDRESSES.size())));
        }
        requireMoreBlocks();
        Conditions.until(
                MovingNode.LIMIT,
                "all pods are registered",
                () -> show().at("/registered").asInt() == NODES.size());
    }

    @AfterEach
    void endJob() throws Exception {
        stopPods();
        Conditions.until(
                MovingNode.LIMIT,
                "the job is forgotten",
                () -> PpmrCommand.run(words("forget")).exitCode() == 0);
        pods.clear();
    }

    private static void stopPods() throws Exception {
        for (MovingNode node : ALL) {
            for (PodStatus pod : node.list("source")) {
                PpmrCommand stopped =
                        PpmrCommand.run("pod", "stop", "--socket", node.socket().toString(), pod.name());
                assertEquals(0, stopped.exitCode(), stopped.said());
            }
        }
    }

    private static String[] words(String command, String... more) {
        List<String> words = new ArrayList<>(
                List.of("job", command, "--socket", NODES.get(0).socket().toString(), JOB));
        words.addAll(List.of(more));
        return words.toArray(String[]::new);
    }

    private static JsonNode show() throws Exception {
        PpmrCommand shown = PpmrCommand.run(words("show", "--json"));
        return shown.exitCode() == 0 ? JSON.readTree(shown.said()) : JSON.createObjectNode();
    }

    private static JsonNode checkpoint() throws Exception {
        PpmrCommand command = PpmrCommand.run(words("checkpoint", "--json"));
        assertTrue(command.said().startsWith("{"), command.said());
        return JSON.readTree(command.said());
    }

    /** A pod, and the node on which it runs. */
    private record RunningPod(MovingNode node, PodStatus status) {}

    /** Finds a pod wherever it runs. */
    private static RunningPod find(int pod) throws Exception {
        for (MovingNode node : ALL) {
            for (PodStatus one : node.list("source")) {
                if (one.name().endsWith("/p" + pod)) {
                    return new RunningPod(node, one);
                }
            }
        }
        throw new IOException("pod p" + pod + " runs nowhere");
    }

    private static String output(int pod) throws Exception {
        RunningPod found = find(pod);
        return found.node().said(found.status());
    }

    /** Returns how many segments with RST the pods sent, and how many of their connections were reset. */
    private static List<Long> resets() throws Exception {
        List<Long> resets = new ArrayList<>();
        for (int i = 0; i < NODES.size(); i++) {
            RunningPod found = find(i);
            List<List<String>> tcp = found.node()
                    .runIn(found.status(), "cat", "/proc/net/snmp")
                    .lines()
                    .filter(line -> line.startsWith("Tcp:"))
                    .map(line -> List.of(line.split(" ", -1)))
                    .toList();
            for (String name : List.of("OutRsts", "EstabResets")) {
                resets.add(Long.parseLong(tcp.get(1).get(tcp.get(0).indexOf(name))));
            }
        }
        return resets;
    }

    private static long blocks(int pod) throws Exception {
        String output = output(pod);
        assertFalse(output.contains("FAILED"), () -> "pod p" + pod + ": " + output);
        return output.lines()
                .filter(line -> line.startsWith("round"))
                .mapToLong(line -> Long.parseLong(line.substring(6)))
                .max()
                .orElse(0);
    }

    /** Waits until each pod has received forty more right blocks. */
    private static void requireMoreBlocks() throws Exception {
        for (int i = 0; i < NODES.size(); i++) {
            int pod = i;
            long before = blocks(pod);
            Conditions.until(MovingNode.LIMIT, "pod p" + pod + " receives blocks", () -> blocks(pod) >= before + 40);
        }
    }

    private static void requireRestarted(PpmrCommand restart) {
        assertEquals(0, restart.exitCode(), restart.said());
    }

    @Test
    void shouldLoseNoBlockWhenItIsCheckpointedAndRestartedElsewhere() throws Exception {
        List<String> held = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            JsonNode outcome = checkpoint();
            assertEquals("checkpointed", outcome.at("/outcome").asText(), outcome.toString());
            held.add(outcome.at("/held_ms").asText());
            requireMoreBlocks();
        }
        System.out.println("held for " + held + " ms");
        JsonNode sets = show().at("/sets");
        assertEquals(2, sets.size(), "two sets are kept");
        for (JsonNode set : sets) {
            stopPods();
            String name = set.at("/set").asText();
            requireRestarted(restart("--set", name, "--on", "bridged-2,bridged-3,bridged-1"));
            requireMoreBlocks();
            assertFalse(output(2).contains("continued"), "a process that the job itself had stopped was continued");
        }
        assertEquals(3, show().at("/incarnation").asInt());
    }

    @Test
    @Tag("soak")
    void shouldResetNoConnectionInManyCheckpointsNorInRestartsOnOtherNodes() throws Exception {
        List<MovingNode> others = new ArrayList<>();
        for (int number = 4; number <= 6; number++) {
            MovingNode other = makeNode(number);
            other.start();
            others.add(other);
        }
        List<Long> before = resets();
        List<Long> held = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            JsonNode outcome = checkpoint();
            assertEquals("checkpointed", outcome.at("/outcome").asText(), outcome.toString());
            held.add(outcome.at("/held_ms").asLong());
            requireMoreBlocks();
        }
        System.out.println("20 checkpoints, held for " + held + " ms");
        assertEquals(before, resets(), "no connection was reset");
        JsonNode sets = show().at("/sets");
        assertEquals(2, sets.size(), "two sets are kept");
        for (JsonNode set : sets) {
            stopPods();
            String hosts =
                    String.join(",", others.stream().map(MovingNode::host).toList());
            requireRestarted(restart("--set", set.at("/set").asText(), "--on", hosts));
            requireMoreBlocks();
            for (int i = 0; i < NODES.size(); i++) {
                assertTrue(others.contains(find(i).node()), "pod p" + i + " runs on another node");
            }
            assertEquals(List.of(0L, 0L, 0L, 0L, 0L, 0L), resets(), "no connection was reset by the restart");
        }
        assertEquals(3, show().at("/incarnation").asInt());
    }

    /** Begins a checkpoint, and lets the fault happen while a node's dump has not begun. */
    private static JsonNode checkpointWith(MovingNode held, Fault fault) throws Exception {
        held.hold("dump");
        CompletableFuture<JsonNode> checkpoint = CompletableFuture.supplyAsync(() -> {
            try {
                return checkpoint();
            } catch (Exception e) {
                throw new CompletionException(e);
            }
        });
        held.awaitHeld("dump");
        fault.happen();
        held.letGo("dump");
        return checkpoint.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
    }

    /** Does harm in the middle of a checkpoint. */
    @FunctionalInterface
    private interface Fault {
        void happen() throws Exception;
    }

    /** Runs a further program in a pod, until there is a file /tmp/stop. Waits for its line "ready". */
    private void runBeside(int pod, String program) throws Exception {
        MovingNode node = NODES.get(pod);
        PpmrCommand started = PpmrCommand.run(
                "pod",
                "exec",
                "--socket",
                node.socket().toString(),
                "--detach",
                "--output",
                "/tmp/beside",
                "1/p" + pod,
                "--",
                "perl",
                "-MIO::Socket::INET",
                "-e",
                "$| = 1; " + program + "print \"ready\\n\"; select undef, undef, undef, 0.05 until -e '/tmp/stop'");
        assertEquals(0, started.exitCode(), started.said());
        Path output = node.within(pods.get(pod), "/tmp/beside");
        Conditions.until(
                MovingNode.LIMIT,
                "the program in pod p" + pod + " is ready",
                () -> Files.exists(output) && Files.readString(output).contains("ready"));
    }

    private void stopBeside(int pod) throws Exception {
        Files.createFile(NODES.get(pod).within(pods.get(pod), "/tmp/stop"));
    }

    /** Requires that a checkpoint is refused for that reason, and leaves nothing. Other nodes may hold their pods. */
    private static void requireRefusal(String... parts) throws Exception {
        JsonNode outcome = checkpoint();
        assertEquals("refused", outcome.at("/outcome").asText(), outcome.toString());
        for (String part : parts) {
            assertTrue(outcome.at("/reason").asText().contains(part), outcome.toString());
        }
        Conditions.until(MovingNode.LIMIT, "nothing is left of the checkpoint", () -> partialImages()
                .isEmpty());
    }

    @Tag("soak")
    @Test
    void shouldRefuseByNameWhenAConnectionLeavesTheJob() throws Exception {
        runBeside(1, """
                my $all = IO::Socket::INET->new(Listen => 5, LocalPort => 7001) or die;
                my @ends = map { my $one = IO::Socket::INET->new("$_:7001") or die; ($one, $all->accept) }
                    ("127.0.0.1", "%s");
                """.formatted(ADDRESSES.get(1)));
        assertEquals("checkpointed", checkpoint().at("/outcome").asText(), "connections in a pod are no obstacle");
        Process listener = new ProcessBuilder(hub.words("perl", "-MIO::Socket::INET", "-e", """
                        my $all = IO::Socket::INET->new(Listen => 5, LocalPort => 9000) or die;
                        my $one = $all->accept; sysread $one, my $end, 1;
                        """))
                .inheritIO()
                .start();
        try {
            String outside = hub.address();
            Conditions.until(
                    MovingNode.LIMIT, "the listener outside of the job listens", () -> hub.run("cat", "/proc/net/tcp")
                            .contains(":2328 00000000:0000 0A"));
            runBeside(0, """
                    my $one = IO::Socket::INET->new("%s:9000") or die;
                    """.formatted(outside));
            requireRefusal("pod 1/p0: PID ", outside + ":9000", "out of the job", "Remedy: ");
            requireMoreBlocks();
            stopBeside(0);
            assertTrue(listener.waitFor(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS));
            Conditions.until(
                    MovingNode.LIMIT,
                    "the job is checkpointed without that connection",
                    () -> checkpoint().at("/outcome").asText().equals("checkpointed"));
        } finally {
            listener.destroyForcibly();
        }
    }

    @Test
    @Tag("soak")
    void shouldRefuseByNameWhenConnectionsWaitToBeAccepted() throws Exception {
        runBeside(2, """
                my $all = IO::Socket::INET->new(Listen => 5, LocalPort => 7001) or die;
                my $one = IO::Socket::INET->new("127.0.0.1:7001") or die;
                """);
        requireRefusal("has connections that wait to be accepted", "Remedy: ");
        requireMoreBlocks();
        stopBeside(2);
        Conditions.until(
                MovingNode.LIMIT,
                "the job is checkpointed without that connection",
                () -> checkpoint().at("/outcome").asText().equals("checkpointed"));
    }

    @Tag("soak")
    @Test
    void shouldContinueEverywhereWhenASourceIsKilledInACheckpoint() throws Exception {
        MovingNode killed = NODES.get(1);
        JsonNode outcome = checkpointWith(killed, () -> {
            killed.source().kill();
            killed.letGo("dump");
            killed.startSource();
        });
        assertEquals("void", outcome.at("/outcome").asText(), outcome.toString());
        requireMoreBlocks();
        requireNoPartialImages();
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
        requireMoreBlocks();
    }

    @Test
    @Tag("soak")
    void shouldContinueEverywhereWhenADumpFails() throws Exception {
        NODES.get(2).killCriu("dump");
        JsonNode outcome = checkpoint();
        NODES.get(2).forgetFaults();
        assertEquals("void", outcome.at("/outcome").asText(), outcome.toString());
        requireMoreBlocks();
        requireNoPartialImages();
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
    }

    @Test
    @Tag("soak")
    void shouldEndTheCheckpointAsItWouldHaveWhenTheControllerIsKilled() throws Exception {
        JsonNode outcome = checkpointWith(NODES.get(0), () -> {
            controller.kill();
            controller = hub.startController();
        });
        assertTrue(
                List.of("checkpointed", "void").contains(outcome.at("/outcome").asText()), outcome.toString());
        requireMoreBlocks();
        Conditions.until(
                MovingNode.LIMIT,
                "a checkpoint is written again",
                () -> checkpoint().at("/outcome").asText().equals("checkpointed"));
        requireMoreBlocks();
    }

    /** Stopped in an orderly way, it ends its copies. Whatever others do meanwhile, no part of the job runs alone. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    @Tag("soak")
    void shouldRunNothingTwiceAndAllOrNothingWhenATargetEndsInARestart(boolean isKilled) throws Exception {
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
        stopPods();
        MovingNode killed = NODES.get(1);
        killed.hold("restore");
        CompletableFuture<PpmrCommand> restart = CompletableFuture.supplyAsync(() -> {
            try {
                return restart();
            } catch (Exception e) {
                throw new CompletionException(e);
            }
        });
        killed.awaitHeld("restore");
        if (isKilled) {
            killed.target().kill();
        } else {
            // Its copies are held, and reported, by then or not.
            killed.letGo("restore");
            killed.target().close();
        }
        killed.letGo("restore");
        killed.startTarget("");
        PpmrCommand ended = restart.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        if (ended.exitCode() != 0) {
            // The node counted as lost: nothing runs, and the restart is repeated.
            for (MovingNode node : NODES) {
                assertEquals(List.of(), node.list("source"));
            }
            Conditions.until(
                    MovingNode.LIMIT, "the job is restarted", () -> restart().exitCode() == 0);
        }
        requireMoreBlocks();
        for (MovingNode node : NODES) {
            assertEquals(1, node.list("source").size(), "each pod runs once");
        }
    }

    @Test
    @Tag("soak")
    void shouldGiveACheckpointUpWhenAPodIsMoved() throws Exception {
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
        MovingNode from = NODES.get(0);
        MovingNode to = NODES.get(1);
        JsonNode outcome = checkpointWith(NODES.get(2), () -> {
            PpmrCommand move = from.move(JOB, to);
            assertEquals(0, move.exitCode(), move.said());
        });
        assertEquals("void", outcome.at("/outcome").asText(), outcome.toString());
        requireMoreBlocks();
        Conditions.until(
                MovingNode.LIMIT,
                "the moved pod is registered where it is",
                () -> show().at("/places/bridged-2").size() == 2);
        assertEquals(0, show().at("/moves").size());
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
        stopPods();
        requireRestarted(restart());
        requireMoreBlocks();
    }

    /** Moves the first node's pod while no controller answers. */
    private static void moveWithoutCluster(MovingNode from, MovingNode to) throws Exception {
        controller.kill();
        PpmrCommand refused = from.move(JOB, to);
        assertTrue(refused.exitCode() != 0 && refused.said().contains("--without-cluster"), refused.said());
        requireMoreBlocks();
        PpmrCommand moved = PpmrCommand.run(
                "migrate", "--socket", from.socket().toString(), JOB, "--to", to.endpoint(), "--without-cluster");
        assertEquals(0, moved.exitCode(), moved.said());
    }

    @Test
    @Tag("soak")
    void shouldFollowAMigrationThatNoControllerHasNoted() throws Exception {
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
        moveWithoutCluster(NODES.get(0), NODES.get(1));
        requireMoreBlocks();
        controller = hub.startController();
        Conditions.until(
                MovingNode.LIMIT,
                "the record has the moved pod where it is",
                () -> show().at("/places/bridged-2").size() == 2);
        assertEquals(0, show().at("/places/bridged-1").size());
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
        stopPods();
        requireRestarted(restart());
        requireMoreBlocks();
    }

    @Test
    @Tag("soak")
    void shouldRefuseARestartWhenAMigrationIsNotRecorded() throws Exception {
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
        MovingNode to = NODES.get(1);
        moveWithoutCluster(NODES.get(0), to);
        // No controller can find the node of the target's address.
        to.target().kill();
        controller = hub.startController();
        try {
            Conditions.until(
                    MovingNode.LIMIT,
                    "a checkpoint is refused by the migration's source",
                    () -> PpmrCommand.run(words("checkpoint", "--json")).said().contains("not recorded"));
            requireMoreBlocks();
            // The source's service has its note on the disk.
            NODES.get(0).source().kill();
            NODES.get(0).startSource();
            stopPods();
            awaitRefusal("not recorded");
            PpmrCommand other = restart("--moved-away-is-off", "bridged-3");
            assertTrue(other.exitCode() == 4 && other.said().contains("not recorded"), other.said());
            requireRestarted(restart("--moved-away-is-off", to.endpoint(), "--on", "bridged-1,bridged-3"));
            requireMoreBlocks();
        } finally {
            to.startTarget("");
        }
        Conditions.until(
                MovingNode.LIMIT,
                "the job is checkpointed again",
                () -> checkpoint().at("/outcome").asText().equals("checkpointed"));
    }

    private static void awaitRefusal(String words) throws Exception {
        Conditions.until(MovingNode.LIMIT, "a restart is refused: " + words, () -> {
            // A controller that was started again is not the active one at once.
            PpmrCommand refused = PpmrCommand.run(words("restart"));
            assertTrue(refused.exitCode() != 0, refused.said());
            return refused.exitCode() == 4 && refused.said().contains(words);
        });
    }

    @Test
    @Tag("soak")
    void shouldRefuseByNameWhatCannotBeDone() throws Exception {
        PpmrCommand none = PpmrCommand.run(words("restart"));
        assertEquals(4, none.exitCode(), none.said());
        assertTrue(none.said().contains("has no such set"), none.said());
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
        PpmrCommand runs = PpmrCommand.run(words("restart"));
        assertTrue(runs.exitCode() == 4 && runs.said().contains("runs on node"), runs.said());
        stopPods();
        PpmrCommand unknown = restart("--set", "1-9-00000000");
        assertTrue(unknown.exitCode() == 4 && unknown.said().contains("no such set"), unknown.said());
        String set = show().at("/sets/0/set").asText();
        Path image = checkpoints.resolve("1/ring").resolve(set).resolve("p1");
        Path damaged = image.resolve("rank-0/inventory.img");
        byte[] right = Files.readAllBytes(damaged);
        Files.write(damaged, new byte[right.length]);
        PpmrCommand damage = restart();
        assertTrue(damage.exitCode() == 1 && damage.said().contains("damaged"), damage.said());
        Files.write(damaged, right);
        String manifest = Files.readString(image.resolve("manifest"));
        Files.writeString(image.resolve("manifest"), manifest.replace("10.20.0.12", "10.20.0.19"));
        PpmrCommand exchanged = restart();
        assertTrue(exchanged.exitCode() == 4 && exchanged.said().contains("damaged"), exchanged.said());
        Files.writeString(image.resolve("manifest"), manifest);
        requireRestarted(restart());
        requireMoreBlocks();
    }

    @Test
    @Tag("soak")
    void shouldBeOnlyItsUsersToCheckpointRestartAndSee() throws Exception {
        for (String request : List.of("job_checkpoint", "job_restart", "job_forget", "job_show")) {
            for (String job : List.of(JOB, "ring", "../1/ring", "1/../1/ring", "-1/ring", "1/ring/p0")) {
                String answer = NODES.get(0).askAs(2, "{\"request\": \"" + request + "\", \"job\": \"" + job + "\"}");
                assertTrue(answer.contains("refused") || answer.contains("[]"), request + " " + job + ": " + answer);
            }
        }
        String seen = NODES.get(0).askAs(2, "{\"request\": \"job_show\"}");
        assertFalse(seen.contains("ring"), seen);
        String own = NODES.get(0).askAs(1, "{\"request\": \"job_show\"}");
        assertTrue(own.contains("1/ring"), own);
        String set = NODES.get(0).askAs(1, "{\"request\": \"job_restart\", \"job\": \"ring\", \"set\": \"../x\"}");
        assertTrue(set.contains("no set of that name"), set);
        assertEquals(0, show().at("/round").asInt(), "no checkpoint was made");
        assertEquals("checkpointed", checkpoint().at("/outcome").asText());
        assertEquals(
                "rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(checkpoints.resolve("1"))));
    }

    private static void requireNoPartialImages() throws IOException {
        assertEquals(List.of(), partialImages());
    }

    private static List<Path> partialImages() throws IOException {
        try (Stream<Path> all = Files.walk(checkpoints)) {
            return all.filter(path -> path.getFileName().toString().endsWith(".partial"))
                    .toList();
        } catch (UncheckedIOException e) {
            // A directory was removed while it was read.
            return List.of(checkpoints);
        }
    }

    private static PpmrCommand restart(String... more) throws Exception {
        PpmrCommand restart = PpmrCommand.run(words("restart", more));
        // Until a source has noticed that its pods are gone, it is unknown where they run.
        for (int i = 0; i < 20 && restart.said().contains("runs on node"); i++) {
            restart = PpmrCommand.run(words("restart", more));
        }
        return restart;
    }
}
