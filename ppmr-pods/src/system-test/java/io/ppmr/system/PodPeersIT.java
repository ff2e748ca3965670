package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.KeyFile;
import io.ppmr.linux.Command;
import io.ppmr.pods.PodStatus;
import io.ppmr.protocol.control.ReturnToken;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.Testbed;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
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

/**
 * A pod that is held longer than its connections would live. It moves from node a to b, and its peer is at c. Both send
 * keepalive probes every two seconds, and reset the connection after three unanswered probes, which is after eight
 * seconds.
 */
@Tag("soak")
@Timeout(value = 600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodPeersIT {
    /** SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT. */
    private static final String ALIVE = """
            sub alive { my $s = shift;
                setsockopt $s, 1, 9, 1 or die; setsockopt $s, 6, 4, 2 or die;
                setsockopt $s, 6, 5, 2 or die; setsockopt $s, 6, 6, 3 or die }
            """;

    /** Sends a number, and checks the answer. */
    private static final String CLIENT = ALIVE + """
            $| = 1; my $peer;
            for (1 .. 200) {
                $peer = IO::Socket::INET->new("$ARGV[0]:7000") and last;
                select undef, undef, undef, 0.1;
            }
            $peer or do { print "no connection\\n"; exit 1 };
            alive $peer;
            for (my $number = 1; ; $number++) {
                print $peer "$number\\n"; $peer->flush;
                my $back = readline $peer;
                defined $back or do { print "lost: $!\\n"; sleep 600 };
                $back eq "-$number\\n" or do { print "wrong\\n"; sleep 600 };
                print "round $number\\n" if $number % 50 == 0;
                select undef, undef, undef, 0.01;
            }
            """;

    /** Prints a line when it receives data again after five seconds. */
    private static final String SERVER = ALIVE + """
            use Time::HiRes "time";
            my $all = IO::Socket::INET->new(Listen => 1, LocalPort => 7000, ReuseAddr => 1) or die "listen: $!";
            $| = 1; print "listens\\n";
            my $one = $all->accept or die "accept: $!"; alive $one;
            my $last = time;
            while (my $line = readline $one) {
                my $now = time;
                printf "hears again at %.3f\\n", $now if $now - $last > 5;
                $last = $now;
                print $one "-$line"; $one->flush;
            }
            print "lost: $!\\n"; sleep 600;
            """;

    private static final Duration HOLD = Duration.ofSeconds(12);
    private static final Duration LONGEST_GAP = Patience.of(Duration.ofMillis(1500));
    /** A lease, and the time in which a busy machine notices its end. */
    private static final Duration LEASE_ENDS = Patience.of(Duration.ofSeconds(20));

    private static final String TABLE = "ppmr-away-0a14000c";
    /** The token of a migration that there is not. */
    private static final ReturnToken FORGED = new ReturnToken("f0".repeat(32));

    private static Testbed testbed;
    private static MovingNode a;
    private static MovingNode b;
    private static MovingNode c;

    private MovingNode home;
    private PodStatus server;
    private PodStatus client;

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(
                Command.of(List.of("sh", "-c", "command -v nft"))
                        .run(MovingNode.LIMIT)
                        .succeeded(),
                "needs nft (./ppmr setup)");
        testbed = Testbed.create("pod-peers");
        a = new MovingNode(testbed, 1);
        b = new MovingNode(testbed, 2);
        c = new MovingNode(testbed, 3);
        MovingNode.connect(a, b);
        MovingNode.connect(b, c);
        for (MovingNode node : List.of(a, b, c)) {
            // At the last one no service listens.
            node.tellPeers(List.of(a.endpoint(), b.endpoint(), c.endpoint(), "10.20.0.209:7411"));
            node.start();
        }
    }

    @AfterAll
    static void end() throws IOException {
        if (testbed != null) {
            testbed.close();
        }
    }

    @AfterEach
    void putInOrder() throws Exception {
        Files.deleteIfExists(b.folder().resolve("wait"));
        Files.deleteIfExists(b.folder().resolve("waits"));
        Files.deleteIfExists(b.folder().resolve("fail"));
        for (MovingNode node : List.of(a, b, c)) {
            Conditions.until(MovingNode.LIMIT, "its pods are stopped", () -> {
                for (PodStatus pod : node.list("target")) {
                    // Refused while a migration has it.
                    PpmrCommand.run(
                            "pod",
                            "stop",
                            "--socket",
                            node.folder().resolve("target.sock").toString(),
                            pod.name());
                }
                return node.list("target").isEmpty();
            });
        }
    }

    private void pair() throws Exception {
        pair(c);
    }

    /**
     * @param at the node of the peer
     */
    private void pair(MovingNode at) throws Exception {
        home = at;
        server = home.runPodAt("server", "10.20.0.15", "perl", "-MIO::Socket::INET", "-e", SERVER);
        home.await(server, "listens");
        client = a.runPodAt("client", "10.20.0.12", "perl", "-MIO::Socket::INET", "-e", CLIENT, server.address());
        a.await(client, "round 100\n");
    }

    /** Requests the move, and waits until the copy's restore starts, which waits. */
    private static CompletableFuture<Command.CommandResult> moveIntoAWait() throws Exception {
        Files.createFile(b.folder().resolve("wait"));
        List<String> words =
                PpmrCommand.words("migrate", "--socket", a.socket().toString(), "1/client", "--to", b.endpoint());
        CompletableFuture<Command.CommandResult> moving = CompletableFuture.supplyAsync(() -> {
            try {
                return Command.of(words).run(MovingNode.LIMIT.plusSeconds(120));
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        Conditions.until(
                MovingNode.LIMIT,
                "the restore begins",
                () -> Files.exists(b.folder().resolve("waits")));
        return moving;
    }

    private void requireQuietPeer() throws Exception {
        Conditions.until(
                MovingNode.LIMIT, "the peer is told", () -> tables(home, server).contains(TABLE));
    }

    private static String tables(MovingNode node, PodStatus pod) throws IOException, InterruptedException {
        return node.runIn(pod, "nft", "list", "ruleset");
    }

    /** Returns how often TCP of the peer doubled the time to its next retransmission. */
    private String backoff() throws IOException, InterruptedException {
        String shown = home.runIn(server, "ss", "-tinoH", "state", "established");
        return shown.contains("backoff:") ? shown.replaceAll("(?s).*backoff:(\\d+).*", "$1") : "0";
    }

    private static PodStatus find(MovingNode node, String name) throws Exception {
        return node.list("target").stream()
                .filter(pod -> pod.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    /** Waits for the pod's veth pair to be set up there, and returns that time. */
    private static CompletableFuture<Double> cableIn(MovingNode node) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return Double.parseDouble(node.run(
                                "timeout",
                                "" + MovingNode.LIMIT.toSeconds(),
                                "sh",
                                "-c",
                                "until ip link show dev ppmr0a14000c up 2>/dev/null | grep -q LOWER_UP; do sleep 0.02;"
                                        + " done; date +%s.%N")
                        .strip());
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    /** Waits until both exchange correct data again, and all rules that muted them are removed. */
    private void requireItGoesOnSoon(MovingNode node, CompletableFuture<Double> cableIn) throws Exception {
        double cableInS = cableIn.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        home.await(server, "hears again at");
        String said = home.said(server);
        double gapS = Double.parseDouble(said.substring(said.indexOf("again at ") + "again at ".length())
                        .lines()
                        .findFirst()
                        .orElseThrow())
                - cableInS;
        System.out.printf("figure: keepalives of 2 s, held: the peer hears again %.2f s after cable in%n", gapS);
        PodStatus there = find(node, "1/client");
        long rounds = node.said(there).lines().count();
        Conditions.until(
                MovingNode.LIMIT,
                "numbers come back: " + node.said(there),
                () -> node.said(there).lines().count() > rounds + 1);
        assertFalse(node.said(there).contains("lost"), node.said(there));
        assertFalse(node.said(there).contains("wrong"), node.said(there));
        assertFalse(home.said(server).contains("lost"), home.said(server));
        Conditions.until(MovingNode.LIMIT, "no table is left with the peer", () -> tables(home, server)
                .isBlank());
        assertEquals("", tables(node, there).strip());
        assertFalse(node.runIn(there, "ip", "link", "show", "dev", "eth0").contains("NOARP"));
        assertTrue(gapS < LONGEST_GAP.toMillis() / 1e3, "the peer heard again only after " + gapS + " s");
    }

    private void requireItGoesOnThereAfter(MovingNode at, Duration hold) throws Exception {
        pair(at);
        CompletableFuture<Command.CommandResult> moving = moveIntoAWait();
        requireQuietPeer();
        String atFirst = backoff();
        LockSupport.parkNanos(hold.toNanos());
        assertEquals(atFirst, backoff(), "it waits longer from try to try");
        CompletableFuture<Double> cableIn = cableIn(b);
        Files.delete(b.folder().resolve("wait"));
        Command.CommandResult moved = moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertTrue(moved.succeeded(), moved.output());
        requireItGoesOnSoon(b, cableIn);
        // A peer that does not answer is named, and delays no other.
        assertTrue(a.source().log().contains("10.20.0.209:7411 cannot be notified that address 10.20.0.12 is away"));
    }

    /** Its timers run then, and its connection outlives a pause that is short. */
    @Tag("soak")
    @Test
    void shouldBeMovedAllTheSameWhenNoKernelHasNfTables() throws Exception {
        for (MovingNode node : List.of(a, b, c)) {
            node.hideNfTables();
        }
        try {
            pair();
            PpmrCommand moved = a.move("1/client", b);
            assertEquals(0, moved.exitCode(), moved.said());
            PodStatus there = find(b, "1/client");
            long rounds = b.said(there).lines().count();
            Conditions.until(
                    MovingNode.LIMIT,
                    "numbers come back: " + b.said(there),
                    () -> b.said(there).lines().count() > rounds + 1);
            assertFalse(b.said(there).contains("lost"), b.said(there));
            assertTrue(a.source().log().contains("the kernel cannot drop the packets that leave it"));
            assertFalse(a.source().log().contains("may break"), a.source().log());
            assertTrue(doctor().contains("nftables cannot keep pods quiet"));
        } finally {
            for (MovingNode node : List.of(a, b, c)) {
                node.showNfTables();
            }
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnSoonWithItsConnectionWhenItWasHeldLongerThanKeepalivesLast() throws Exception {
        requireItGoesOnThereAfter(c, HOLD);
    }

    @Tag("soak")
    @ParameterizedTest
    @ValueSource(ints = {30, 90})
    void shouldGoOnSoonWithItsConnectionWhenItWasHeldForLong(int seconds) throws Exception {
        requireItGoesOnThereAfter(c, Duration.ofSeconds(seconds));
    }

    private enum Peer {
        ON_THE_NODE_THAT_IS_LEFT,
        ON_THE_NODE_THAT_IT_COMES_TO
    }

    @Tag("soak")
    @ParameterizedTest
    @EnumSource
    void shouldGoOnSoonWithItsConnectionWhenItsPeerIsOnANodeThatMovesIt(Peer peer) throws Exception {
        requireItGoesOnThereAfter(peer == Peer.ON_THE_NODE_THAT_IS_LEFT ? a : b, HOLD);
    }

    private enum End {
        RESTORE_FAILS,
        CANCELLED
    }

    @Tag("soak")
    @ParameterizedTest
    @EnumSource
    void shouldGoOnSoonWhereItIsWhenItWasHeldAndIsRolledBack(End end) throws Exception {
        pair();
        CompletableFuture<Command.CommandResult> moving = moveIntoAWait();
        requireQuietPeer();
        LockSupport.parkNanos(HOLD.toNanos());
        CompletableFuture<Double> cableIn = cableIn(a);
        if (end == End.CANCELLED) {
            String id = a.records("source").stream()
                    .filter(TransactionRecord.Begun.class::isInstance)
                    .reduce((first, second) -> second)
                    .orElseThrow()
                    .migrationId();
            PpmrCommand cancelled =
                    PpmrCommand.run("cancel", "--socket", a.socket().toString(), id);
            assertEquals(0, cancelled.exitCode(), cancelled.said());
        } else {
            Files.createFile(b.folder().resolve("fail"));
            Files.delete(b.folder().resolve("wait"));
        }
        assertNotEquals(
                0, moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS).exitCode());
        requireItGoesOnSoon(a, cableIn);
        assertFalse(b.hasLink(client.link()));
    }

    /** The kernel ends the rule that mutes the peer. The next service there removes the empty table. */
    @Tag("soak")
    @Test
    void shouldSpeakAgainByItselfWhenThePeersServiceWasKilledMeanwhile() throws Exception {
        pair();
        CompletableFuture<Command.CommandResult> moving = moveIntoAWait();
        requireQuietPeer();
        assertTrue(tables(c, server).contains("expires"), tables(c, server));
        c.target().kill();
        Conditions.until(
                LEASE_ENDS, "the kernel ends it", () -> !tables(c, server).contains("expires"));
        Files.delete(b.folder().resolve("wait"));
        Command.CommandResult moved = moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertTrue(moved.succeeded(), moved.output());
        PodStatus there = find(b, "1/client");
        long rounds = b.said(there).lines().count();
        Conditions.until(
                MovingNode.LIMIT,
                "numbers come back",
                () -> b.said(there).lines().count() > rounds + 1);
        assertTrue(tables(c, server).contains(TABLE), "nobody has taken it away");
        c.startTarget("");
        assertEquals("", tables(c, server).strip());
    }

    /** The services that move it die on both sides, so that no service renews anything, until both continue. */
    @Tag("soak")
    @Test
    void shouldSpeakAgainWhenWhoeverMovesItHasDied() throws Exception {
        pair();
        CompletableFuture<Command.CommandResult> moving = moveIntoAWait();
        requireQuietPeer();
        a.source().kill();
        b.target().kill();
        Conditions.until(LEASE_ENDS, "the lease ends, and nothing is left", () -> tables(c, server)
                .isBlank());
        assertTrue(c.target().log().contains("the lease for address 10.20.0.12, away by migration"));
        Files.delete(b.folder().resolve("wait"));
        b.startTarget("");
        a.startSource();
        moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        Conditions.until(MovingNode.LIMIT, "no migration has it", () -> a.journal("1-client")
                .path("move")
                .isNull());
        PodStatus here = find(a, "1/client");
        assertEquals("", tables(a, here).strip());
        assertFalse(a.runIn(here, "ip", "link", "show", "dev", "eth0").contains("NOARP"));
        assertFalse(b.hasLink(client.link()));
    }

    private static String doctor() throws IOException, InterruptedException {
        String config = a.folder().resolve("source.toml").toString();
        return Command.of(
                        a.words(PpmrCommand.words("doctor", "--config", config).toArray(String[]::new)))
                .run(MovingNode.LIMIT)
                .output();
    }

    @Tag("soak")
    @Test
    void shouldSayInDoctorWhatMakesAPauseSurvivable() throws Exception {
        pair();
        String said = doctor();
        assertTrue(said.contains("br0 has a MAC address of its own, 02:51:00:00:00:01"), said);
        assertTrue(said.contains("nftables can keep pods quiet"), said);
        assertTrue(said.contains(c.endpoint() + " can be notified when a pod's address is away"), said);
        assertTrue(said.contains("10.20.0.209:7411 cannot be notified when a pod's address is away"), said);
        assertTrue(said.contains("pod 1/client: tcp_retries2 is 200\n"), said);
        a.runIn(client, "sh", "-c", "echo 5 >/proc/sys/net/ipv4/tcp_retries2");
        assertTrue(doctor().contains("pod 1/client: tcp_retries2 is 5, and each try during a pause counts"));
        // Who stops asking waits, so that the kernel's timer of keepalives is the one that runs.
        PodStatus idle = a.runPodAt("idle", "10.20.0.13", "perl", "-MIO::Socket::INET", "-e", ALIVE + """
                my $all = IO::Socket::INET->new(Listen => 1, LocalPort => 7000) or die;
                my $one = IO::Socket::INET->new("10.20.0.13:7000") or die; alive $one;
                my $other = $all->accept or die; $| = 1; print "idle\\n"; sleep 600;
                """);
        a.await(idle, "idle");
        Conditions.until(MovingNode.LIMIT, "doctor sees that it asks", () -> doctor().contains(
                        "pod 1/idle: a connection checks within "));
    }

    /** Runs on node a, and returns the answer of the service at c, or the reason for its lack. */
    private static String tell(Path key, String address, String leaseMs) throws IOException, InterruptedException {
        return tell(key, address, leaseMs, FORGED.digest());
    }

    private static String tell(Path key, String address, String leaseMs, String token)
            throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java"));
        words.addAll(List.of(System.getenv("PPMR_JAVA_OPTIONS").strip().split("\\s+", -1)));
        words.addAll(List.of("-cp", System.getProperty("java.class.path"), AwayNotice.class.getName()));
        words.addAll(List.of(key.toString(), c.endpoint(), address, "m-1", leaseMs, token));
        return Command.of(a.words(words.toArray(String[]::new)))
                .run(MovingNode.LIMIT)
                .output();
    }

    @Test
    void shouldBelieveNobodyWhoHasNoKeyNorOfAnAddressThatIsNotGrantedOrStays() throws Exception {
        pair();
        Path key = testbed.folder().resolve("key");
        Path other = testbed.folder().resolve("other-key");
        KeyFile.create(other);
        String stranger = tell(other, "10.20.0.12", "10000");
        assertFalse(stranger.contains("AddressAwayAck"), stranger);
        assertTrue(stranger.contains("Exception"), stranger);
        // A node of the same site. Its messages about others' addresses, and about stopped pods, are rejected.
        for (String address : List.of("10.20.0.203", "192.0.2.1", "10.20.0.9", "::1", "10.20.0.012")) {
            String answer = tell(key, address, "10000");
            assertTrue(answer.contains("Refuse") && answer.contains("grants that address"), answer);
        }
        String stays = tell(key, server.address(), "10000");
        assertTrue(stays.contains("Refuse") && stays.contains("nothing moves it"), stays);
        for (String wrong : List.of("10.20.0.12;reboot", "")) {
            String answer = tell(key, wrong, "10000");
            assertTrue(answer.contains("Exception"), answer);
        }
        String tooLong = tell(key, "10.20.0.12", "60001");
        assertTrue(tooLong.contains("Exception"), tooLong);
        assertEquals("", tables(c, server).strip());
        // The sender has the key, and the address may move. So the sender may be a node that moves it, and its notice
        // expires.
        assertTrue(tell(key, "10.20.0.12", "2000").contains("AddressAwayAck[pods=1]"));
        assertTrue(tables(c, server).contains(TABLE));
        Conditions.until(LEASE_ENDS, "the lease ends", () -> tables(c, server).isBlank());
        assertFalse(c.said(server).contains("lost"), c.said(server));
    }

    /** A node that has the key, and receives all messages, is still not the node that moves the pod. */
    @Tag("soak")
    @Test
    void shouldStayQuietWhenAnotherNodeSaysThatTheAddressIsBack() throws Exception {
        pair();
        CompletableFuture<Command.CommandResult> moving = moveIntoAWait();
        requireQuietPeer();
        Path key = testbed.folder().resolve("key");
        String atFirst = backoff();
        for (int round = 0; round < 3; round++) {
            // A token that the node made itself, before and after it sent its own notice that the address is away. It
            // also sends a short token.
            assertTrue(tell(key, "10.20.0.12", "0", FORGED.text()).contains("AddressAwayAck"));
            assertTrue(tables(c, server).contains("expires"), tables(c, server));
            assertTrue(tell(key, "10.20.0.12", "1", new ReturnToken("0%063d".formatted(round)).digest())
                    .contains("AddressAwayAck"));
            assertTrue(tell(key, "10.20.0.12", "0", "0%063d".formatted(round)).contains("AddressAwayAck"));
            assertTrue(tables(c, server).contains("expires"), tables(c, server));
        }
        assertEquals(atFirst, backoff(), "it waits longer from try to try");
        CompletableFuture<Double> cableIn = cableIn(b);
        Files.delete(b.folder().resolve("wait"));
        Command.CommandResult moved = moving.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertTrue(moved.succeeded(), moved.output());
        cableIn.get(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS);
        Conditions.until(MovingNode.LIMIT, "no table is left with the peer", () -> tables(c, server)
                .isBlank());
        PodStatus there = find(b, "1/client");
        long rounds = b.said(there).lines().count();
        Conditions.until(
                MovingNode.LIMIT,
                "numbers come back",
                () -> b.said(there).lines().count() > rounds + 1);
        assertFalse(b.said(there).contains("lost"), b.said(there));
    }
}
