package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Optional;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Moves a pod of a ring of TCP connections between two emulated machines, and back. {@code PodGuestsIT} boots them one
 * after the other with a virtual cable between them. It runs in both. The older machine, which boots first, has one of
 * the three pods. The younger machine has two, and one of them is moved. They report their progress to each other by
 * files in the shared folder.
 */
class PodBetweenGuests {
    private static final String OLDER = "10.20.0.202:7411";
    private static final String YOUNGER = "10.20.0.201:7411";
    private static final Duration LIMIT = Duration.ofMinutes(10);
    private static final Pattern ROUND = Pattern.compile("round (\\d+) leap (\\d+)");

    /**
     * Sends a number, increased by one, to the next pod, and checks that it returns three larger. Reads the monotonic
     * clock each time. Prints the longest time between two readings, in seconds, and whether the clock went back.
     */
    private static final String RING = """
            use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep); use IO::Socket::INET;
            $| = 1; $SIG{PIPE} = "IGNORE";
            my ($next, $begins) = @ARGV;
            my $all = IO::Socket::INET->new(Listen => 1, LocalPort => 7000, ReuseAddr => 1) or die "listen: $!";
            my $out;
            sleep 0.1 until $out = IO::Socket::INET->new("$next:7000");
            my $in = $all->accept or die "accept: $!";
            print "connected\\n";
            syswrite $out, pack "N", 1 if $begins;
            my ($last, $clock, $leap) = (0, clock_gettime(CLOCK_MONOTONIC), 0);
            while (1) {
                my $token = "";
                while (length $token < 4) {
                    sysread $in, $token, 4 - length $token, length $token or do { print "lost: $!\\n"; exit 1 };
                }
                my $number = unpack "N", $token;
                !$last or $number == $last + 3 or do { print "wrong: $number after $last\\n"; exit 1 };
                $last = $number;
                my $now = clock_gettime(CLOCK_MONOTONIC);
                print "the clock went back\\n" if $now < $clock;
                $leap = $now - $clock if $now - $clock > $leap;
                $clock = $now;
                print "round $number leap ", int($leap), "\\n" if $number % 60 < 3;
                sleep 0.01;
                syswrite $out, pack "N", $number + 1;
            }
            """;

    private Path shared;
    private Testbed testbed;
    private MovingNode node;

    @BeforeEach
    void findTheSharedFolder() throws IOException {
        // A line of the launcher with the share's name and its place.
        shared = Path.of(
                Files.readString(Path.of("/run/ppmr-guest/shares")).strip().split(" ", 2)[1]);
        testbed = Testbed.create("guests");
    }

    @AfterEach
    void close() throws IOException {
        testbed.close();
    }

    @Test
    @Timeout(800)
    void shouldGoOnWithItsConnectionsAndItsClockWhenItIsMovedBetweenMachinesOfDifferentUptime() throws Exception {
        if (isFirst()) {
            beTheOlder();
        } else {
            beTheYounger();
        }
    }

    private boolean isFirst() throws IOException {
        try {
            Files.createFile(shared.resolve("older"));
            return true;
        } catch (FileAlreadyExistsException another) {
            return false;
        }
    }

    private void beTheOlder() throws Exception {
        node = new MovingNode(testbed, 2);
        Files.copy(testbed.folder().resolve("key"), shared.resolve("key"));
        start();
        PodStatus third = runInTheRing("third", "10.20.0.13", "10.20.0.11");
        tell("ready", Double.toString(bootedAtSeconds()));
        double youngerBootedAt = Double.parseDouble(await("moved"));
        PodStatus here = find("1/second");
        requireMoreRounds(here);
        requireMoreRounds(third);
        requireItsClock(here, youngerBootedAt - bootedAtSeconds());
        PpmrCommand back =
                PpmrCommand.run("migrate", "--socket", node.socket().toString(), "1/second", "--to", YOUNGER);
        assertEquals(0, back.exitCode(), back.said());
        requireMoreRounds(third);
        tell("back", "");
        await("done");
    }

    private void beTheYounger() throws Exception {
        double olderBootedAt = Double.parseDouble(await("ready"));
        Path key = testbed.folder().resolve("key");
        Files.copy(shared.resolve("key"), key, StandardCopyOption.COPY_ATTRIBUTES);
        node = new MovingNode(testbed, 1);
        start();
        PodStatus first = runInTheRing("first", "10.20.0.11", "10.20.0.12", "begins");
        PodStatus second = runInTheRing("second", "10.20.0.12", "10.20.0.13");
        requireMoreRounds(second);
        PpmrCommand moved = PpmrCommand.run("migrate", "--socket", node.socket().toString(), "1/second", "--to", OLDER);
        assertEquals(0, moved.exitCode(), moved.said());
        requireMoreRounds(first);
        tell("moved", Double.toString(bootedAtSeconds()));
        await("back");
        PodStatus again = find("1/second");
        requireMoreRounds(again);
        double differenceSeconds = bootedAtSeconds() - olderBootedAt;
        requireItsClock(again, differenceSeconds);
        System.out.printf(
                "uptimes differ by %.0f s; the pod that was moved there and back says: %s%n",
                differenceSeconds, lastRound(again).orElseThrow().group());
        tell("done", "");
    }

    private void start() throws Exception {
        node.plugIn("eth0");
        node.start();
    }

    private PodStatus runInTheRing(String name, String at, String... arguments) throws Exception {
        String[] command = new String[3 + arguments.length];
        command[0] = "perl";
        command[1] = "-e";
        command[2] = RING;
        System.arraycopy(arguments, 0, command, 3, arguments.length);
        return node.runPodAt(name, at, command);
    }

    private PodStatus find(String name) throws Exception {
        return node.list("target").stream()
                .filter(pod -> pod.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private Optional<MatchResult> lastRound(PodStatus pod) throws IOException {
        return ROUND.matcher(node.said(pod)).results().reduce((one, next) -> next);
    }

    private int round(PodStatus pod) throws IOException {
        return lastRound(pod).map(last -> Integer.parseInt(last.group(1))).orElse(0);
    }

    private void requireMoreRounds(PodStatus pod) throws Exception {
        int before = round(pod);
        Conditions.until(LIMIT, "the number comes round: " + node.said(pod), () -> round(pod) > before + 60);
        assertFalse(node.said(pod).matches("(?s).*(wrong|lost).*"), node.said(pod));
    }

    /** A clock of its current machine would have leapt by the difference, or gone back. */
    private void requireItsClock(PodStatus pod, double differenceSeconds) throws IOException {
        String said = node.said(pod);
        assertFalse(said.contains("the clock went back"), said);
        int leapSeconds = Integer.parseInt(lastRound(pod).orElseThrow().group(2));
        assertTrue(leapSeconds < differenceSeconds, leapSeconds + " s, uptimes differ by " + differenceSeconds + " s");
    }

    /** Returns the boot time by the clock that both machines get from the host. */
    private static double bootedAtSeconds() throws IOException {
        String upSeconds = Files.readString(Path.of("/proc/uptime")).split(" ", 2)[0];
        return System.currentTimeMillis() / 1e3 - Double.parseDouble(upSeconds);
    }

    private void tell(String name, String text) throws IOException {
        Path file = Files.writeString(shared.resolve(name + ".new"), text);
        Files.move(file, shared.resolve(name));
    }

    private String await(String name) throws Exception {
        Conditions.until(LIMIT, "the other machine says " + name, () -> Files.exists(shared.resolve(name)));
        return Files.readString(shared.resolve(name));
    }
}
