package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/**
 * A pod whose memory is copied in rounds while it answers a peer. It moves between nodes a and b by a slow link, and
 * its peer is at c.
 */
@Tag("soak")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodRoundsIT {
    /** At this rate the memory alone takes eight seconds. */
    private static final String LINK = "100mbit";

    /** Has 96 MiB, of which it writes a part. Answers each number with its negative, and checks its memory. */
    private static final String SERVER = """
            use IO::Socket::INET; $| = 1; $SIG{PIPE} = "IGNORE";
            my $memory = pack("N*", 1 .. 1024) x 24576;
            my $sum = unpack "%32N*", $memory;
            my $all = IO::Socket::INET->new(Listen => 1, LocalPort => 7000, ReuseAddr => 1) or die "listen: $!";
            print "listens\\n";
            my $one = $all->accept or die "accept: $!";
            while (my $line = readline $one) {
                chomp $line;
                my $at = ($line % 24576) * 4096;
                my $number = unpack "N", substr $memory, $at, 4;
                substr $memory, $at, 4, pack "N", $number + 1;
                $sum = ($sum + 1) % 2 ** 32;
                if ($line % 200 == 0) { $sum == unpack "%32N*", $memory or print "wrong memory\\n" }
                print $one "-$line\\n"; $one->flush;
            }
            print "lost: $!\\n"; sleep 600;
            """;

    private static final String PEER = """
            use IO::Socket::INET; use Time::HiRes qw(time sleep); $| = 1;
            my $pod;
            for (1 .. 200) { $pod = IO::Socket::INET->new("$ARGV[0]:7000") and last; sleep 0.1 }
            $pod or do { print "no connection\\n"; exit 1 };
            my ($last, $longest) = (time, 0);
            for (my $number = 1; ; $number++) {
                print $pod "$number\\n"; $pod->flush;
                my $back = readline $pod;
                defined $back or do { print "lost: $!\\n"; sleep 600 };
                $back eq "-$number\\n" or do { print "wrong\\n"; sleep 600 };
                my $now = time; $longest = $now - $last if $now - $last > $longest; $last = $now;
                printf "round %d, longest gap %.3f s\\n", $number, $longest if $number % 50 == 0;
                sleep 0.01;
            }
            """;

    private static final Pattern GAP = Pattern.compile("longest gap ([0-9.]+) s");

    private static Testbed testbed;
    private static MovingNode a;
    private static MovingNode b;
    private static MovingNode c;

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        testbed = Testbed.create("pod-rounds");
        a = new MovingNode(testbed, 1);
        b = new MovingNode(testbed, 2);
        c = new MovingNode(testbed, 3);
        MovingNode.connect(a, b, LINK);
        MovingNode.connect(a, c);
        for (MovingNode node : List.of(a, b, c)) {
            node.tellPeers(List.of(a.endpoint(), b.endpoint(), c.endpoint()));
            node.sendPages("precopied");
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
        Files.deleteIfExists(b.folder().resolve("fail"));
        for (MovingNode node : List.of(a, b, c)) {
            for (PodStatus pod : node.list("target")) {
                PpmrCommand.run(
                        "pod",
                        "stop",
                        "--socket",
                        node.folder().resolve("target.sock").toString(),
                        pod.name());
            }
            assertEquals(List.of(), node.list("target"));
        }
    }

    private PodStatus pod;
    private PodStatus peer;

    private void begin() throws Exception {
        pod = a.runPodAt("server", "10.20.0.12", "perl", "-e", SERVER);
        a.await(pod, "listens");
        peer = c.runPodAt("peer", "10.20.0.15", "perl", "-e", PEER, pod.address());
        requireAnswers();
    }

    private void requireAnswers() throws Exception {
        long wanted = answers() + 4;
        Conditions.until(MovingNode.LIMIT, "the pod answers: " + c.said(peer), () -> answers() >= wanted);
    }

    private long answers() throws IOException {
        return c.said(peer).lines().filter(line -> line.startsWith("round")).count();
    }

    private double longestGapSeconds() throws IOException {
        Matcher gaps = GAP.matcher(c.said(peer));
        double last = 0;
        while (gaps.find()) {
            last = Double.parseDouble(gaps.group(1));
        }
        return last;
    }

    private static void requireRightMemory(MovingNode node) throws Exception {
        PodStatus there = node.only();
        assertTrue(node.said(there).lines().noneMatch(line -> line.contains("wrong memory")), node.said(there));
    }

    /** Returns the number of attempts of a source that copied in rounds. Its journal has those of all tests. */
    private static long copies(MovingNode node) throws IOException {
        return node.records("source").stream()
                .filter(record -> record instanceof TransactionRecord.PagesChosen chosen
                        && chosen.sentence().startsWith("precopied"))
                .map(TransactionRecord::migrationId)
                .distinct()
                .count();
    }

    /** A peer that learns too early that the address is away sends nothing for the whole time. */
    @Test
    void shouldAnswerItsPeerWhileItsMemoryIsCopied() throws Exception {
        begin();
        requireShortGap(a, b);
    }

    @Test
    @Tag("soak")
    void shouldAnswerItsPeerWhenItIsMovedThereAndBackTwice() throws Exception {
        begin();
        for (int i = 0; i < 2; i++) {
            requireShortGap(a, b);
            requireShortGap(b, a);
        }
    }

    private void requireShortGap(MovingNode from, MovingNode to) throws Exception {
        long before = copies(from);
        long startNs = System.nanoTime();
        PpmrCommand moved = from.move("1/server", to);
        double wholeSeconds = (System.nanoTime() - startNs) / 1e9;
        assertEquals(0, moved.exitCode(), moved.said());
        assertEquals(before + 1, copies(from), from.source().logEnd(20));
        requireAnswers();
        requireRightMemory(to);
        double gapSeconds = longestGapSeconds();
        System.out.printf("figure: a pod in rounds: %.1f s, longest gap %.2f s%n", wholeSeconds, gapSeconds);
        assertTrue(gapSeconds < wholeSeconds / 2, "of " + wholeSeconds + " s there was no answer in " + gapSeconds);
    }

    @Test
    @Tag("soak")
    void shouldContinueHereWhenTheCopyCannotBeRestored() throws Exception {
        begin();
        Files.createFile(b.folder().resolve("fail"));
        PpmrCommand moved = a.move("1/server", b);
        assertNotEquals(0, moved.exitCode(), moved.said());
        requireAnswers();
        requireRightMemory(a);
        assertEquals(List.of(), b.list("target"));
    }

    /** Nothing was done to the pod yet, so the next run of the service finds nothing to undo. */
    @Test
    @Tag("soak")
    void shouldContinueHereWhenTheSourceIsKilledInTheFirstRound() throws Exception {
        begin();
        Process moving = beginToMove();
        try {
            a.source().kill();
        } finally {
            moving.destroyForcibly().waitFor();
        }
        requireAnswers();
        a.startSource();
        requireAnswers();
        assertTrue(longestGapSeconds() < 5, c.said(peer));
        assertEquals(0, a.move("1/server", b).exitCode());
        requireAnswers();
        requireRightMemory(b);
    }

    /** Its target still removes what the failed copy left when it receives the next attempt. */
    @Test
    @Tag("soak")
    void shouldBeStreamedToTheSameTargetWhenTheCopyFails() throws Exception {
        begin();
        requireMoved(
                beginToMove(), () -> b.run("sh", "-c", "pkill -KILL -f '[p]pmr-pages target.*" + b.folder() + "'"));
    }

    /** It is no descendant of the pod's init, so it would not be moved. */
    @Test
    @Tag("soak")
    void shouldWaitWithRoundsForTheEndOfACommandInThePod() throws Exception {
        begin();
        requireMoved(beginToMove(), () -> {
            PpmrCommand inside =
                    PpmrCommand.run("pod", "exec", "--socket", a.socket().toString(), "1/server", "--", "sleep", "15");
            assertEquals(0, inside.exitCode(), inside.said());
        });
    }

    /** Runs something while the pod's memory is copied. The pod must be at its target after that. */
    private void requireMoved(Process moving, Executable meanwhile) throws Exception {
        try {
            assertDoesNotThrow(meanwhile);
            assertTrue(moving.waitFor(MovingNode.LIMIT.toSeconds(), TimeUnit.SECONDS));
            assertEquals(0, moving.exitValue(), a.source().logEnd(20));
        } finally {
            moving.destroyForcibly().waitFor();
        }
        requireAnswers();
        requireRightMemory(b);
    }

    /** Begins to move the pod, and returns in the middle of the first round. */
    private static Process beginToMove() throws Exception {
        long before = copies(a);
        Process moving = new ProcessBuilder(PpmrCommand.words(
                        "migrate", "--socket", a.socket().toString(), "1/server", "--to", b.endpoint()))
                .redirectErrorStream(true)
                .redirectOutput(testbed.folder().resolve("moving.log").toFile())
                .start();
        Conditions.until(MovingNode.LIMIT, "the copy begins", () -> copies(a) > before);
        LockSupport.parkNanos(Duration.ofSeconds(2).toNanos());
        return moving;
    }
}
