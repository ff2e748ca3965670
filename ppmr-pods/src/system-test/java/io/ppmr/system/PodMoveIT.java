package io.ppmr.system;

import static io.ppmr.system.PodPair.requireMoreRounds;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.system.PodPair.Memory;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Pods of an ordinary user that move between two nodes with their address and a connection of theirs. */
@Timeout(value = 600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodMoveIT {
    private static final Duration HOLD = Duration.ofSeconds(30);

    private static Testbed testbed;
    private static MovingNode a;
    private static MovingNode b;

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        testbed = Testbed.create("moving");
        a = new MovingNode(testbed, 1);
        b = new MovingNode(testbed, 2);
        MovingNode.connect(a, b);
        a.start();
        b.start();
    }

    @AfterAll
    static void end() throws IOException {
        if (testbed != null) {
            testbed.close();
        }
    }

    @AfterEach
    void putInOrder() throws Exception {
        endTheWait();
        Files.deleteIfExists(b.folder().resolve("fail"));
        Files.deleteIfExists(b.folder().resolve("fail-one"));
        b.target().kill();
        b.startTarget("");
        if (a.source().isAlive()) {
            a.source().thaw();
        } else {
            a.startSource();
        }
        stopAll(a);
        stopAll(b);
        assertEquals(List.of(), folders(a));
        assertEquals(List.of(), folders(b));
    }

    private static void stopAll(MovingNode node) throws Exception {
        for (PodStatus pod : node.list("target")) {
            PpmrCommand stopped = PpmrCommand.run(
                    "pod",
                    "stop",
                    "--socket",
                    node.folder().resolve("target.sock").toString(),
                    pod.name());
            // A server that writes to its client, which was stopped before it, ends by SIGPIPE.
            assertTrue(
                    stopped.exitCode() == 0
                            || node.list("target").stream()
                                    .noneMatch(one -> one.name().equals(pod.name())),
                    stopped.said());
        }
    }

    private static List<String> folders(MovingNode node) throws IOException {
        try (Stream<Path> all = Files.list(node.folder().resolve("pods"))) {
            return all.map(one -> one.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void shouldGoOnWithItsConnectionWhenAPodIsMovedThereAndBack() throws Exception {
        PodStatus server = b.runPodAt("server", "10.20.0.15", "perl", "-MIO::Socket::INET", "-e", PodPair.SERVER);
        b.await(server, "listens");
        PodStatus client = a.runPodAt(
                "client", "10.20.0.12", "perl", "-MIO::Socket::INET", "-e", Memory.SMALL.client(), server.address());
        requireMoreRounds(a, client);
        PpmrCommand moved = a.move("1/client", b);
        assertEquals(0, moved.exitCode(), moved.said());
        PodStatus there = b.list("target").stream()
                .filter(pod -> pod.name().equals("1/client"))
                .findFirst()
                .orElseThrow();
        assertEquals(client.address(), there.address());
        assertNotEquals(0, there.init());
        assertEquals("running", there.state());
        requireMoreRounds(b, there);
        assertEquals(List.of(), a.list("source"));
        assertFalse(a.hasLink(client.link()));
        assertEquals(List.of(), folders(a));
        // Moves it back, while its peer stays.
        PpmrCommand back = b.move("1/client", a);
        assertEquals(0, back.exitCode(), back.said());
        requireMoreRounds(a, a.only());
        assertEquals(List.of("1-server"), folders(b));
        assertTrue(b.said(server).lines().noneMatch(line -> line.equals("end")), b.said(server));
    }

    /**
     * Its children write to it endlessly, and the kernel still sends when they are stopped, because it paces them
     * (SO_MAX_PACING_RATE). It checks what arrives, and reports the progress of the slowest child.
     */
    private static final String FAMILY = """
            $| = 1; $SIG{CHLD} = "IGNORE";
            my $all = IO::Socket::INET->new(Listen => 20, LocalPort => 7000) or die "listen: $!";
            sub block { pack("N", $_[0]) x 1024 }
            for (1 .. 12) {
                next if fork;
                my $peer = IO::Socket::INET->new("$ARGV[0]:7000") or die "no connection: $!";
                setsockopt $peer, 1, 47, pack "L", 1 << 20 or die "no pace: $!";
                for (my $number = 1; ; $number++) { print $peer block $number or die "lost: $!" }
            }
            my (@peers, @parts, @numbers); my $rounds = 0;
            push @peers, scalar $all->accept for 1 .. 12;
            for (;;) {
                for my $one (0 .. 11) {
                    my $part = "";
                    while (length $part < 4096) {
                        sysread $peers[$one], $part, 4096 - length $part, length $part or die "lost: $!";
                    }
                    $part eq block(++$numbers[$one]) or do { print "wrong\\n"; exit 1 };
                }
                print "round $rounds\\n" if ++$rounds % 20 == 0;
            }
            """;

    /** CRIU dumps the two ends of a connection one after the other, and restores them in that order. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void shouldLoseNothingBetweenItsOwnProcessesWhenTheKernelStillSendsForThem(boolean nfTables) throws Exception {
        List<MovingNode> without = nfTables ? List.of() : List.of(a, b);
        for (MovingNode node : without) {
            node.hideNfTables();
        }
        try {
            PodStatus family =
                    a.runPodAt("client", "10.20.0.12", "perl", "-MIO::Socket::INET", "-e", FAMILY, "10.20.0.12");
            requireMoreRounds(a, family);
            PpmrCommand moved = a.move("1/client", b);
            assertEquals(0, moved.exitCode(), moved.said());
            requireMoreRounds(b, b.only());
            PpmrCommand back = b.move("1/client", a);
            assertEquals(0, back.exitCode(), back.said());
            requireMoreRounds(a, a.only());
            // The pod also stays where it is.
            Files.createFile(b.folder().resolve("fail"));
            PpmrCommand failed = a.move("1/client", b);
            assertNotEquals(0, failed.exitCode(), failed.said());
            requireMoreRounds(a, a.only());
        } finally {
            for (MovingNode node : without) {
                node.showNfTables();
            }
        }
    }

    /** Counts up by several connections to a Redis server and checks each answer, until a file is there. */
    private static final String COUNTING = """
            use Time::HiRes "time"; $| = 1; my (@all, $n, $longest, $last);
            for my $one (1 .. 4) {
                my $peer;
                for (1 .. 200) { $peer = IO::Socket::INET->new($ARGV[0]) and last; select undef, undef, undef, 0.1 }
                push @all, $peer || die "no connection: $!";
            }
            print "connected\\n"; $last = time;
            until (-e $ARGV[1]) {
                $n++;
                print { $all[$_] } "INCR counter$_\\r\\n" for 0 .. 3;
                for (0 .. 3) {
                    my $answer = readline $all[$_]; defined $answer or die "lost: $!";
                    $answer eq ":$n\\r\\n" or die "wrong: $answer instead of $n";
                }
                my $now = time; $longest = $now - $last if $now - $last > $longest; $last = $now;
                print "round $n\\n" if $n % 100 == 0;
            }
            printf "right, longest gap %.3f s\\n", $longest;
            """;

    @Tag("soak")
    @Test
    void shouldAnswerEveryRequestRightWhenARedisServerIsMovedUnderLoad() throws Exception {
        Assumptions.assumeTrue(
                Files.isExecutable(Path.of("/usr/bin/redis-server")), "needs redis-server (./ppmr test installs it)");
        Assumptions.assumeTrue(Files.isExecutable(Path.of("/usr/bin/tcpdump")), "needs tcpdump");
        PodStatus redis = b.runPodAt(
                "redis",
                "10.20.0.16",
                "redis-server",
                "--bind",
                "10.20.0.16",
                "--port",
                "7001",
                "--save",
                "",
                "--protected-mode",
                "no",
                "--dir",
                "/tmp");
        b.await(redis, "Ready to accept connections");
        Path stop = a.folder().resolve("stop");
        String mac = b.journal("1-redis").path("addresses").path("mac").textValue();
        // The services' own connections are closed as they like.
        try (Spawned resets = a.spawn(
                        "tcpdump", "-i", "br0", "-l", "-n", "host 10.20.0.16 and tcp[tcpflags] & tcp-rst != 0");
                Spawned leaving = b.spawn("tcpdump", "-i", "up1", "-Q", "out", "-tt", "-l", "-n", "ether src " + mac)) {
            resets.await("listening on");
            leaving.await("listening on");
            try (Spawned client =
                    a.spawn("perl", "-MIO::Socket::INET", "-e", COUNTING, "10.20.0.16:7001", stop.toString())) {
                client.await("round 200\n");
                leaving.await(" > ");
                PpmrCommand moved = b.move("1/redis", a);
                double movedAtS = System.currentTimeMillis() / 1e3;
                assertEquals(0, moved.exitCode(), moved.said());
                long rounds = client.said().lines().count();
                Conditions.until(
                        MovingNode.LIMIT,
                        "it answers: " + client.said(),
                        () -> client.said().lines().count() > rounds + 5);
                Files.createFile(stop);
                client.await("right, longest gap");
                System.out.println("figure: a Redis server under load is moved: "
                        + client.said()
                                .lines()
                                .reduce((first, second) -> second)
                                .orElse(""));
                assertEquals(
                        List.of(),
                        leaving.said()
                                .lines()
                                .filter(line -> line.matches("[0-9]+[.].*"))
                                .filter(line -> Double.parseDouble(line.split(" ", 2)[0]) > movedAtS)
                                .toList(),
                        "packets of the old pod after the move");
                assertEquals(
                        List.of(),
                        resets.said()
                                .lines()
                                .filter(line -> line.contains("Flags [R"))
                                .toList());
            } finally {
                Files.deleteIfExists(stop);
            }
        }
    }

    /** One in 256 processes has its stack where CRIU streams nothing. Then the test uses another process. */
    @Tag("soak")
    @Test
    void shouldBeStreamedWithItsConnectionWhenItHasMuchMemory() throws Exception {
        assertTrue(Memory.LARGE.client().contains("check; print"), Memory.LARGE.client());
        pair(Memory.LARGE);
        PpmrCommand moved = a.move("1/client", b);
        while (moved.said().contains("at the first byte of a page")) {
            stopAll(b);
            pair(Memory.LARGE);
            moved = a.move("1/client", b);
        }
        assertEquals(0, moved.exitCode(), moved.said());
        assertTrue(moved.said().contains("pages streamed: "), moved.said());
        System.out.println("figure: "
                + moved.said().lines().filter(line -> line.contains("pages ")).toList());
        PodStatus there = b.list("target").stream()
                .filter(pod -> pod.name().equals("1/client"))
                .findFirst()
                .orElseThrow();
        requireMoreRounds(b, there);
        PpmrCommand back = b.move("1/client", a);
        assertEquals(0, back.exitCode(), back.said());
        requireMoreRounds(a, a.only());
        assertFalse(a.said(a.only()).contains("wrong"), a.said(a.only()));
    }

    @Tag("soak")
    @ParameterizedTest
    @EnumSource
    void shouldGoOnWhereItIsWithItsConnectionWhenTheRestoreFails(Memory memory) throws Exception {
        PodStatus client = pair(memory).client();
        Files.createFile(b.folder().resolve("fail"));
        PpmrCommand failed = a.move("1/client", b);
        assertNotEquals(0, failed.exitCode(), failed.said());
        // No other service notifies the pods there. They would not send to it until their lease ends.
        Conditions.until(MovingNode.LIMIT, "the target's pods are told that it is back", () -> b.target()
                .log()
                .contains("address 10.20.0.12 is back"));
        requireMoreRounds(a, client);
        assertEquals(List.of("1-server"), folders(b));
        assertFalse(b.hasLink(client.link()));
        assertTrue(a.journal("1-client").path("move").isNull());
        // What the failed one has left is in the way of no other.
        Files.delete(b.folder().resolve("fail"));
        PpmrCommand moved = a.move("1/client", b);
        assertEquals(0, moved.exitCode(), moved.said());
    }

    /** TCP retransmits each second in pods after any pause, if the kernel has that option (Linux 6.15). */
    @Tag("soak")
    @Test
    void shouldGoOnSoonWithItsConnectionWhenItWasHeldForHalfAMinute() throws Exception {
        Assumptions.assumeTrue(
                Files.exists(Path.of("/proc/sys/net/ipv4/tcp_rto_max_ms")), "needs tcp_rto_max_ms (Linux 6.15)");
        pair();
        CompletableFuture<PpmrCommand> moving = moveIntoAWait();
        LockSupport.parkNanos(HOLD.toNanos());
        endTheWait();
        PpmrCommand moved = moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertEquals(0, moved.exitCode(), moved.said());
        long movedNs = System.nanoTime();
        PodStatus there = b.list("target").stream()
                .filter(pod -> pod.name().equals("1/client"))
                .findFirst()
                .orElseThrow();
        long rounds = b.said(there).lines().count();
        Conditions.until(
                MovingNode.LIMIT,
                "blocks come back",
                () -> b.said(there).lines().count() > rounds);
        System.out.printf(
                "figure: after a hold of %d s the connection continues %.1f s after the command's end%n",
                HOLD.toSeconds(), (System.nanoTime() - movedNs) / 1e9);
        requireMoreRounds(b, there);
    }

    private static PodPair pair() throws Exception {
        return pair(Memory.SMALL);
    }

    private static PodPair pair(Memory memory) throws Exception {
        return PodPair.start(a, b, memory);
    }

    /** Requests the move, and waits until the copy's restore starts, which waits. */
    private static CompletableFuture<PpmrCommand> moveIntoAWait() throws Exception {
        return moveIntoAWait("1/client");
    }

    private static CompletableFuture<PpmrCommand> moveIntoAWait(String job) throws Exception {
        Files.createFile(b.folder().resolve("wait"));
        CompletableFuture<PpmrCommand> moving = CompletableFuture.supplyAsync(() -> {
            try {
                return a.move(job, b);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        Conditions.until(
                MovingNode.LIMIT,
                "the restore begins",
                () -> Files.exists(b.folder().resolve("waits")));
        assertTrue(b.hasLink("ppmr0a14000c"));
        return moving;
    }

    private static void endTheWait() throws Exception {
        Files.deleteIfExists(b.folder().resolve("wait"));
        Files.deleteIfExists(b.folder().resolve("waits"));
    }

    private static void requireTheOriginalGoesOn(PodPair pair) throws Exception {
        requireMoreRounds(a, pair.client());
        Conditions.until(
                MovingNode.LIMIT,
                "nothing is left of the copy",
                () -> folders(b).equals(List.of("1-server"))
                        && !b.hasLink(pair.client().link()));
        Conditions.until(MovingNode.LIMIT, "no migration has it", () -> a.journal("1-client")
                .path("move")
                .isNull());
        assertEquals(pair.client().init(), a.only().init());
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhereItIsWhenItIsStreamedAndBothServicesAreKilledInTheMiddle() throws Exception {
        PodPair pair = pair(Memory.LARGE);
        CompletableFuture<PpmrCommand> moving = moveIntoAWait();
        a.source().kill();
        b.target().kill();
        endTheWait();
        b.startTarget("");
        a.startSource();
        moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        requireTheOriginalGoesOn(pair);
    }

    /** Names the migration that the source has begun last. */
    private static String lastBegun() throws IOException {
        return a.records("source").stream()
                .filter(TransactionRecord.Begun.class::isInstance)
                .reduce((first, second) -> second)
                .orElseThrow()
                .migrationId();
    }

    private static void killBothAndStartThemAgain() throws Exception {
        a.source().kill();
        b.target().kill();
        b.startTarget("");
        a.startSource();
    }

    /** Waits until one node alone has the pod, which continues with its connection. */
    private static MovingNode requireOneLives(PodPair pair) throws Exception {
        String full = pair.client().name();
        Conditions.until(MovingNode.LIMIT, "one node has the pod, and no migration does", () -> {
            long here = a.list("source").stream()
                    .filter(pod -> pod.name().equals(full))
                    .count();
            long there = b.list("target").stream()
                    .filter(pod -> pod.name().equals(full))
                    .count();
            return here + there == 1
                    && (here == 1 ? a : b)
                            .journal(full.replace('/', '-'))
                            .path("move")
                            .isNull();
        });
        boolean moved = a.list("source").stream().noneMatch(pod -> pod.name().equals(full));
        MovingNode has = moved ? b : a;
        assertFalse((moved ? a : b).hasLink(pair.client().link()));
        PodStatus pod = has.list(moved ? "target" : "source").stream()
                .filter(one -> one.name().equals(full))
                .findFirst()
                .orElseThrow();
        requireMoreRounds(has, pod);
        return has;
    }

    /** The source is stopped while the target votes, so that no decision has been made when they are killed. */
    @Tag("soak")
    @Test
    void shouldGoOnWhereItIsWithItsConnectionWhenServicesAreKilledAfterTheVote() throws Exception {
        PodPair pair = pair();
        CompletableFuture<PpmrCommand> moving = moveIntoAWait();
        String id = lastBegun();
        b.awaitWholeImage(id);
        a.source().freeze();
        endTheWait();
        b.awaitRecord("target", id, TransactionRecord.PreparedHere.class);
        killBothAndStartThemAgain();
        assertEquals(a, requireOneLives(pair), "nothing was decided, so the original continues");
        moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        requireOneLives(pair);
    }

    @Tag("soak")
    @Test
    void shouldLiveThereWithItsConnectionWhenServicesAreKilledOnceItIsDecided() throws Exception {
        PodPair pair = pair();
        CompletableFuture<PpmrCommand> moving = moveIntoAWait();
        String id = lastBegun();
        endTheWait();
        a.awaitRecord("source", id, TransactionRecord.CommitDecided.class);
        killBothAndStartThemAgain();
        moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertEquals(b, requireOneLives(pair));
        assertEquals(List.of(), folders(a));
    }

    // ---- several pods of one job -------------------------------------------------------------------------------

    /** Two pods of one job here, each with a peer on the other node. A large first pod is streamed. */
    private static List<PodPair> job(Memory memory) throws Exception {
        PodStatus server = b.runPodAt("server2", "10.20.0.18", "perl", "-MIO::Socket::INET", "-e", PodPair.SERVER);
        b.await(server, "listens");
        PodStatus first = b.runPodAt("server", "10.20.0.15", "perl", "-MIO::Socket::INET", "-e", PodPair.SERVER);
        b.await(first, "listens");
        List<PodPair> pairs = List.of(
                new PodPair(first, ofJob("client", "10.20.0.12", memory, first)),
                new PodPair(server, ofJob("client2", "10.20.0.17", Memory.SMALL, server)));
        for (PodPair pair : pairs) {
            requireMoreRounds(a, pair.client());
        }
        return pairs;
    }

    private static PodStatus ofJob(String name, String at, Memory memory, PodStatus server) throws Exception {
        return a.runPodOf("both", name, at, "perl", "-MIO::Socket::INET", "-e", memory.client(), server.address());
    }

    /** Waits until one node alone has both, which continue with their connections. */
    private static MovingNode requireBothLiveTogether(List<PodPair> pairs) throws Exception {
        MovingNode has = requireOneLives(pairs.get(0));
        assertEquals(has, requireOneLives(pairs.get(1)), "the pods of a job are on one node");
        return has;
    }

    private static void requireBothHere(List<PodPair> pairs) throws Exception {
        for (PodPair pair : pairs) {
            requireMoreRounds(a, pair.client());
            assertTrue(a.journal(pair.client().name().replace('/', '-'))
                    .path("move")
                    .isNull());
            assertFalse(b.hasLink(pair.client().link()));
        }
        assertEquals(
                pairs.stream().map(pair -> pair.client().init()).toList(),
                a.list("source").stream().map(PodStatus::init).toList());
        assertEquals(List.of("1-server", "1-server2"), folders(b));
    }

    @Tag("soak")
    @Test
    void shouldMoveInOneMigrationAndBackWhenPodsAreOfOneJob() throws Exception {
        List<PodPair> pairs = job(Memory.SMALL);
        // A pod of another job stays.
        a.runPodAt("alone", "10.20.0.19", "sleep", "600");
        PpmrCommand moved = a.move("both", b);
        assertEquals(0, moved.exitCode(), moved.said());
        assertEquals(b, requireBothLiveTogether(pairs));
        assertEquals(List.of("1-alone"), folders(a));
        assertEquals(2, ranksOf(lastBegun()), "both are ranks of one migration");
        assertEquals(
                List.of("both", "both"),
                b.list("target").stream()
                        .filter(pod -> pod.name().startsWith("1/client"))
                        .map(pod -> pod.specification().job())
                        .toList());
        PpmrCommand back = b.move("1/both", a);
        assertEquals(0, back.exitCode(), back.said());
        assertEquals(a, requireBothLiveTogether(pairs));
        assertEquals(List.of("1-server", "1-server2"), folders(b));
    }

    private static int ranksOf(String id) throws IOException {
        return a.records("source").stream()
                .filter(record -> record.migrationId().equals(id))
                .filter(TransactionRecord.Begun.class::isInstance)
                .mapToInt(
                        record -> ((TransactionRecord.Begun) record).originals().size())
                .sum();
    }

    @Tag("soak")
    @Test
    void shouldBothGoOnWhereTheyAreWhenTheRestoreOfOneFails() throws Exception {
        List<PodPair> pairs = job(Memory.SMALL);
        Files.createFile(b.folder().resolve("fail-one"));
        PpmrCommand failed = a.move("1/both", b);
        assertNotEquals(0, failed.exitCode(), failed.said());
        assertFalse(Files.exists(b.folder().resolve("fail-one")), "a restore has failed");
        requireBothHere(pairs);
        // What the failed one has left is in the way of no other.
        PpmrCommand moved = a.move("1/both", b);
        assertEquals(0, moved.exitCode(), moved.said());
        assertEquals(b, requireBothLiveTogether(pairs));
    }

    @Tag("soak")
    @Test
    void shouldBothGoOnWhereTheyAreWhenServicesAreKilledBeforeItIsDecided() throws Exception {
        List<PodPair> pairs = job(Memory.LARGE);
        CompletableFuture<PpmrCommand> moving = moveIntoAWait("1/both");
        killBothAndStartThemAgain();
        endTheWait();
        moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertEquals(a, requireBothLiveTogether(pairs));
        requireBothHere(pairs);
    }

    @Tag("soak")
    @Test
    void shouldBothLiveThereWhenServicesAreKilledOnceItIsDecided() throws Exception {
        List<PodPair> pairs = job(Memory.SMALL);
        CompletableFuture<PpmrCommand> moving = moveIntoAWait("1/both");
        String id = lastBegun();
        endTheWait();
        a.awaitRecord("source", id, TransactionRecord.CommitDecided.class);
        killBothAndStartThemAgain();
        moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertEquals(b, requireBothLiveTogether(pairs));
        assertEquals(List.of(), folders(a));
    }

    @Tag("soak")
    @Test
    void shouldMoveNoneOfAJobWhenOneOfItsPodsCannotGoOnThere() throws Exception {
        List<PodPair> pairs = job(Memory.SMALL);
        b.runPodAt("client2", "10.20.0.20", "sleep", "600");
        PpmrCommand refused = a.move("1/both", b);
        assertNotEquals(0, refused.exitCode(), refused.said());
        assertTrue(refused.said().contains("pod 1/client2 of this node has that name, or 10.20.0.17"), refused.said());
        for (PodPair pair : pairs) {
            assertEquals("running", a.list("source").get(pairs.indexOf(pair)).state());
        }
        requireMoreRounds(a, pairs.get(0).client());
    }

    /** The node is lost as a whole after the vote. Its service returns on an empty node. */
    @Tag("soak")
    @Test
    void shouldGoOnThereWhenTheSourcesNodeIsLostAfterTheVoteAndFenced() throws Exception {
        b.target().kill();
        b.startTarget("""
                [fence]
                command = ["sh", "-c", 'touch %1$s/asks; while [ ! -e %1$s/off ]; do sleep 0.05; done']
                delay = "1s"
                deadline = "60s"
                """.formatted(b.folder()));
        PodPair pair = pair();
        CompletableFuture<PpmrCommand> moving = moveIntoAWait();
        String id = lastBegun();
        b.awaitWholeImage(id);
        a.source().freeze();
        endTheWait();
        b.awaitRecord("target", id, TransactionRecord.PreparedHere.class);
        a.source().kill();
        Conditions.until(
                MovingNode.LIMIT,
                "the target asks for the fence",
                () -> Files.exists(b.folder().resolve("asks")));
        assertEquals(
                List.of(),
                b.list("target").stream()
                        .filter(pod -> pod.state().equals("running"))
                        .map(PodStatus::name)
                        .filter(name -> name.equals("1/client"))
                        .toList(),
                "nobody has proved that the original is gone");
        a.losePod(pair.client());
        Files.createFile(b.folder().resolve("off"));
        Conditions.until(MovingNode.LIMIT, "it continues", () -> !b.journal("1-client")
                .path("move")
                .isObject());
        PodStatus there = b.list("target").stream()
                .filter(pod -> pod.name().equals("1/client"))
                .findFirst()
                .orElseThrow();
        requireMoreRounds(b, there);
        Files.delete(b.folder().resolve("off"));
        Files.delete(b.folder().resolve("asks"));
        a.startSource();
        moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        Conditions.until(
                MovingNode.LIMIT, "nothing is left of it", () -> folders(a).isEmpty());
        requireMoreRounds(b, there);
    }

    private static void requireRefusal(String said) throws Exception {
        PpmrCommand refused = a.move("1/quiet", b);
        assertNotEquals(0, refused.exitCode(), refused.said());
        assertTrue(refused.said().contains(said), refused.said());
        assertEquals("running", a.only().state());
        assertEquals(List.of(), folders(b));
    }

    @Tag("soak")
    @Test
    void shouldBeRefusedByNameBeforeItIsStoppedWhenItCannotGoOnThere() throws Exception {
        PodStatus quiet = a.runPodAt("quiet", "10.20.0.13", "sleep", "600");
        a.run("ip", "address", "add", "10.20.0.13/32", "dev", "br0");
        requireRefusal("the address 10.20.0.13 is in use at bridge br0, by 02:51:00:00:00:01");
        a.run("ip", "address", "delete", "10.20.0.13/32", "dev", "br0");
        b.run("ip", "link", "add", "br1", "address", "02:51:00:00:01:02", "type", "bridge");
        b.run("ip", "link", "set", "br1", "up");
        b.target().kill();
        b.startTargetAt("br1");
        requireRefusal("the pod does not answer at bridge br1 for 10.20.0.13");
        b.target().kill();
        b.startTargetAt("br9");
        requireRefusal("there is no bridge br9 on this node");
        b.target().kill();
        b.startTarget("mtu = 1400");
        requireRefusal("the largest packet of the pod has 1500 bytes, here 1400");
        b.target().kill();
        b.startTarget("mounts = [\"/usr\"]");
        requireRefusal("the pod sees the directories");
        b.target().kill();
        b.startTarget("mac_prefix = \"02:52\"");
        requireRefusal("here it would have 02:52:0a:14:00:0d");
        b.target().kill();
        b.startTarget("network6 = \"fd00:20::/64\"");
        requireRefusal("the pod has no IPv6 address, here it would have fd00:20::a14:d (network6)");
        assertTrue(a.hasLink(quiet.link()));
        PpmrCommand kept = PpmrCommand.run("migrate", "--socket", a.socket().toString(), "1/quiet", "--keep", "/tmp");
        assertNotEquals(0, kept.exitCode(), kept.said());
        assertTrue(kept.said().contains("no pod can be restarted from a copy yet"), kept.said());
        assertEquals("running", a.only().state());
    }

    @Tag("soak")
    @Test
    void shouldBeRefusedByNameWhenASocketOfItsCannotMove() throws Exception {
        PodStatus pod = a.runPodAt("quiet", "10.20.0.13", "perl", "-MSocket", "-e", """
                $| = 1; socket my $one, PF_INET, SOCK_STREAM, 262 or print "none: $!\\n";
                print "open\\n"; sleep 600;
                """);
        a.await(pod, "open");
        Assumptions.assumeFalse(a.said(pod).contains("none"), "this kernel has no Multipath TCP");
        requireRefusal("a socket of the protocol MPTCP");
    }

    /**
     * The kernel shows a session keyring to no other process. Therefore it is left out, as documented on the page about
     * CRIU.
     */
    @Tag("soak")
    @Test
    void shouldHaveAnEmptySessionKeyringWhenAPodIsMoved() throws Exception {
        Assumptions.assumeTrue(System.getProperty("os.arch").equals("amd64"), "needs x86-64");
        PodStatus pod = a.runPodAt("keys", "10.20.0.13", "perl", "-e", """
                $| = 1; my ($type, $name, $bytes) = ("user", "pods-own", "bytes");
                syscall(250, 1, 0) > 0 or die $!;
                syscall(248, $type, $name, $bytes, 5, -3) > 0 or die $!;
                while (1) {
                    print syscall(250, 10, -3, $type, $name, 0) > 0 ? "has it\n" : "has it no more\n";
                    select(undef, undef, undef, 0.1);
                }
                """);
        a.await(pod, "has it");
        PpmrCommand moved = a.move("1/keys", b);
        assertEquals(0, moved.exitCode(), moved.said());
        PodStatus there = b.list("target").stream()
                .filter(one -> one.name().equals("1/keys") || one.name().equals("keys"))
                .findFirst()
                .orElseThrow();
        b.await(there, "has it no more");
    }

    /** CRIU dumps a pod from outside, where that thread has another number. The system calls are those of x86-64. */
    @Tag("soak")
    @Test
    void shouldBeRefusedByNameWhenATimerSignalsItsFirstThread() throws Exception {
        Assumptions.assumeTrue(System.getProperty("os.arch").equals("amd64"), "needs x86-64");
        PodStatus pod = a.runPodAt("quiet", "10.20.0.13", "perl", "-e", """
                $| = 1; my $event = pack("q l l l x44", 0, 23, 4, $$); my $timer = pack("l", 0);
                syscall(222, 1, $event, $timer) == 0 or die $!;
                my $hour = pack("q4", 0, 0, 3600, 0);
                syscall(223, unpack("l", $timer), 0, $hour, 0) == 0 or die $!;
                print "open\n"; sleep 600;
                """);
        a.await(pod, "open");
        requireRefusal("a POSIX timer that signals its first thread (SIGEV_THREAD_ID");
    }

    @Tag("soak")
    @Test
    void shouldBeRefusedByNameWhenConnectionsWaitToBeAccepted() throws Exception {
        PodStatus pod = a.runPodAt("quiet", "10.20.0.13", "perl", "-MIO::Socket::INET", "-e", """
                $| = 1; my $all = IO::Socket::INET->new(Listen => 5, LocalPort => 7000) or die;
                my $one = IO::Socket::INET->new("127.0.0.1:7000") or die; print "open\\n"; sleep 600;
                """);
        a.await(pod, "open");
        requireRefusal("has connections that wait to be accepted");
    }

    @Tag("soak")
    @Test
    void shouldMoveNoPodForAnotherUserOrOneWhomTheTargetDoesNotTrust() throws Exception {
        a.runPodAt("quiet", "10.20.0.13", "sleep", "600");
        String other = a.askAs(8, "{\"request\": \"migrate\", \"job\": \"1/quiet\", \"wait\": true}");
        assertTrue(other.contains("\"denied\"") || other.contains("\"refused\"") || other.contains("error"), other);
        assertFalse(other.contains("\"started\""), other);
        b.target().kill();
        b.startTargetTrusting("[8]");
        requireRefusal("does not trust user 1");
    }
}
