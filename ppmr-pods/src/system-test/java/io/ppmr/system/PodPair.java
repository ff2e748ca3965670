package io.ppmr.system;

import io.ppmr.pods.PodStatus;
import io.ppmr.testbed.Conditions;

/** A pod, and its peer on another node, which is a pod too, between which blocks go that both check. */
record PodPair(PodStatus server, PodStatus client) {
    /** Sends blocks, and checks the answers. Reports its progress every hundred blocks. */
    private static final String CLIENT = """
            $| = 1; $SIG{PIPE} = sub { print "broken pipe\\n"; exit 1 };
            my $peer;
            for (1 .. 200) {
                $peer = IO::Socket::INET->new("$ARGV[0]:7000") and last;
                select undef, undef, undef, 0.1;
            }
            $peer or do { print "no connection\\n"; exit 1 };
            print "connected\\n";
            for (my $number = 1; ; $number++) {
                my $block = pack "N*", map { $number * $_ } 1 .. 4096;
                print $peer $block; $peer->flush;
                my $back = "";
                while (length $back < length $block) {
                    sysread $peer, $back, length($block) - length $back, length $back
                        or do { print "lost: $!\\n"; exit 1 };
                }
                $back eq reverse $block or do { print "wrong\\n"; exit 1 };
                print "round $number\\n" if $number % 20 == 0;
                select undef, undef, undef, 0.01;
            }
            """;

    static final String SERVER = """
            my $all = IO::Socket::INET->new(Listen => 1, LocalPort => 7000, ReuseAddr => 1) or die "listen: $!";
            $| = 1; print "listens\\n";
            my $one = $all->accept or die "accept: $!";
            while (read $one, my $block, 16384) { print $one scalar reverse $block; $one->flush }
            print "end\\n"; sleep 600;
            """;

    /** The clients, by their memory. A large one is streamed. */
    enum Memory {
        SMALL(CLIENT),
        /** The client reads all of this memory repeatedly. */
        LARGE("my $memory = pack('N*', 1 .. 1024) x 24576; my $sum = unpack '%32C*', $memory;"
                + " sub check { $sum == unpack '%32C*', $memory or print \"wrong memory\\n\" }"
                + CLIENT.replace("print \"round $number\\n\" if $number % 20 == 0;", """
                        if ($number % 20 == 0) { check; print "round $number\\n" }
                        """));

        private final String client;

        Memory(String client) {
            this.client = client;
        }

        /** Returns the Perl program, whose argument is the address of its peer. */
        String client() {
            return client;
        }
    }

    /** Makes the client on the first node and its peer on the second, and waits until blocks go. */
    static PodPair start(MovingNode a, MovingNode b, Memory memory) throws Exception {
        PodStatus server = b.runPodAt("server", "10.20.0.15", "perl", "-MIO::Socket::INET", "-e", SERVER);
        b.await(server, "listens");
        PodStatus client =
                a.runPodAt("client", "10.20.0.12", "perl", "-MIO::Socket::INET", "-e", memory.client, server.address());
        requireMoreRounds(a, client);
        return new PodPair(server, client);
    }

    /** Waits until twenty more blocks returned correctly. */
    static void requireMoreRounds(MovingNode node, PodStatus pod) throws Exception {
        long rounds =
                node.said(pod).lines().filter(line -> line.startsWith("round")).count();
        long wanted = rounds + 2;
        Conditions.until(
                MovingNode.LIMIT,
                "blocks come back: " + node.said(pod),
                () -> node.said(pod)
                                .lines()
                                .filter(line -> line.startsWith("round"))
                                .count()
                        >= wanted);
    }
}
