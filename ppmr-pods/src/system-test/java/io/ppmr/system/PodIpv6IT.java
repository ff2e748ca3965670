package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Pods with an IPv6 address beside the IPv4 one, and their connections over both. */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class PodIpv6IT {
    /** Sends blocks through a connection to each address, in turn, and checks the answers. */
    private static final String CLIENT = """
            use IO::Socket::IP; $| = 1; $SIG{PIPE} = "IGNORE"; my @all;
            for my $at (@ARGV) {
                my $peer;
                for (1 .. 200) {
                    $peer = IO::Socket::IP->new(PeerHost => $at, PeerPort => 7000, Timeout => 5) and last;
                    select undef, undef, undef, 0.1;
                }
                $peer or do { print "no connection: $@\\n"; exit 1 };
                print "from ", $peer->sockhost, "\\n";
                push @all, $peer;
            }
            for (my $number = 1; ; $number++) {
                for my $peer (@all) {
                    my $block = pack "N*", map { $number * $_ } 1 .. 4096;
                    print $peer $block; $peer->flush;
                    my $back = "";
                    while (length $back < length $block) {
                        sysread $peer, $back, length($block) - length $back, length $back
                            or do { print "lost: $!\\n"; exit 1 };
                    }
                    $back eq reverse $block or do { print "wrong\\n"; exit 1 };
                }
                print "round $number\\n" if $number % 20 == 0;
                select undef, undef, undef, 0.01;
            }
            """;

    private static final String SERVER = """
            use IO::Socket::IP; $| = 1;
            my $all = IO::Socket::IP->new(Listen => 2, LocalHost => "::", LocalPort => 7000, V6Only => 0)
                or die "no: $@";
            print "listens\\n"; my @two = map { scalar $all->accept } 1 .. 2;
            while (1) {
                for my $one (@two) {
                    read $one, my $block, 16384 or do { print "end\\n"; sleep 600 };
                    print $one scalar reverse $block; $one->flush;
                }
            }
            """;

    private static Testbed testbed;
    private static MovingNode a;
    private static MovingNode b;

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        testbed = Testbed.create("ipv6");
        String template = "tmp = \"8m\"\nshm = \"8m\"\nnetwork6 = \"fd00:20::/64\"";
        a = new MovingNode(testbed, 1, template);
        b = new MovingNode(testbed, 2, template);
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
    void stopAll() throws Exception {
        for (MovingNode node : new MovingNode[] {a, b}) {
            for (PodStatus pod : node.list("target")) {
                PpmrCommand.run(
                        "pod",
                        "stop",
                        "--socket",
                        node.folder().resolve("target.sock").toString(),
                        pod.name());
            }
        }
    }

    private static void requireMoreRounds(MovingNode node, PodStatus pod) throws Exception {
        long wanted = rounds(node, pod) + 2;
        Conditions.until(MovingNode.LIMIT, "blocks come back: " + node.said(pod), () -> rounds(node, pod) >= wanted);
    }

    private static long rounds(MovingNode node, PodStatus pod) throws IOException {
        return node.said(pod).lines().filter(line -> line.startsWith("round")).count();
    }

    private static PodStatus client(MovingNode node) throws Exception {
        return node.list("target").stream()
                .filter(pod -> pod.name().equals("1/client"))
                .findFirst()
                .orElseThrow();
    }

    @Test
    void shouldGoOnWithBothConnectionsWhenAPodIsMovedThereAndBack() throws Exception {
        PodStatus server = b.runPodAt("server", "10.20.0.15", "perl", "-e", SERVER);
        b.await(server, "listens");
        assertEquals("fd00:20::a14:f", server.addresses().address6());
        PodStatus client = a.runPodAt(
                "client",
                "10.20.0.12",
                "perl",
                "-e",
                CLIENT,
                server.address(),
                server.addresses().address6());
        requireMoreRounds(a, client);
        assertTrue(a.said(client).contains("from 10.20.0.12\nfrom fd00:20::a14:c\n"), a.said(client));
        PpmrCommand moved = a.move("1/client", b);
        assertEquals(0, moved.exitCode(), moved.said());
        assertEquals("fd00:20::a14:c", client(b).addresses().address6());
        requireMoreRounds(b, client(b));
        // Moves it back, while its peer stays.
        PpmrCommand back = b.move("1/client", a);
        assertEquals(0, back.exitCode(), back.said());
        requireMoreRounds(a, client(a));
        // It has only its configured address and the link's own.
        String addresses = a.run(
                "nsenter",
                "--target",
                "" + client(a).init(),
                "--net",
                "ip",
                "-oneline",
                "-6",
                "address",
                "show",
                "eth0");
        assertTrue(
                addresses.lines().allMatch(line -> line.contains(" fd00:20::a14:c/64 ") || line.contains(" fe80::")),
                addresses);
    }

    @Test
    void shouldGoOnWithBothConnectionsWhenTheRestoreFails() throws Exception {
        PodStatus server = b.runPodAt("server", "10.20.0.15", "perl", "-e", SERVER);
        b.await(server, "listens");
        PodStatus client = a.runPodAt(
                "client",
                "10.20.0.12",
                "perl",
                "-e",
                CLIENT,
                server.address(),
                server.addresses().address6());
        requireMoreRounds(a, client);
        Files.createFile(b.folder().resolve("fail-one"));
        PpmrCommand failed = a.move("1/client", b);
        assertNotEquals(0, failed.exitCode(), failed.said());
        requireMoreRounds(a, client);
    }

    @Test
    void shouldBeRefusedByNameWhenSomebodyHasItsIpv6Address() throws Exception {
        a.runPodAt("client", "10.20.0.13", "sleep", "600");
        a.run("ip", "address", "add", "fd00:20::a14:d/128", "dev", "br0", "nodad");
        try {
            PpmrCommand refused = a.move("1/client", b);
            assertNotEquals(0, refused.exitCode(), refused.said());
            assertTrue(
                    refused.said().contains("the address fd00:20::a14:d is in use at bridge br0, by 02:51:00:00:00:01"),
                    refused.said());
            b.run("ip", "address", "add", "fd00:20::a14:d/128", "dev", "br0", "nodad");
            refused = a.move("1/client", b);
            assertTrue(refused.said().contains("the address fd00:20::a14:d is this node's own"), refused.said());
        } finally {
            a.run("ip", "address", "delete", "fd00:20::a14:d/128", "dev", "br0");
            b.run("sh", "-c", "ip address delete fd00:20::a14:d/128 dev br0 || true");
        }
        assertEquals("running", client(a).state());
    }

    @Test
    void shouldBeRefusedByNameWhenTheTargetsPodsHaveAnotherIpv6Network() throws Exception {
        PodStatus pod = a.runPodAt("client", "10.20.0.13", "sleep", "600");
        b.target().kill();
        b.startTarget("network6 = \"fd00:30::/64\"");
        try {
            PpmrCommand refused = a.move("1/client", b);
            assertNotEquals(0, refused.exitCode(), refused.said());
            assertTrue(
                    refused.said()
                            .contains("the pod has the IPv6 address fd00:20::a14:d, here it would have fd00:30::a14:d"
                                    + " (network6)"),
                    refused.said());
        } finally {
            b.target().kill();
            b.startTarget("");
        }
        assertEquals("running", client(a).state());
        assertEquals(pod.init(), client(a).init());
    }
}
