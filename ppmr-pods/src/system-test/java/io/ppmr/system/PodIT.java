package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.Command;
import io.ppmr.migration.RequestException;
import io.ppmr.pods.PodClient;
import io.ppmr.pods.PodOrder;
import io.ppmr.pods.PodStatus;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Pods of ordinary users on two nodes whose bridges are connected. Tests which resources are their own, and that all
 * are removed.
 */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodIT {
    private static final String NO_CAPABILITIES = "0000000000000000";
    private static final int BLOCKS = 200;

    private static Testbed testbed;
    private static PodNode a;
    private static PodNode b;

    @BeforeAll
    static void start() throws Exception {
        PodNode.assumePossible();
        testbed = Testbed.create("pods");
        a = new PodNode(testbed, 1);
        b = new PodNode(testbed, 2);
        PodNode.connect(a, b);
        a.start("");
        b.start(hasCgroups() ? "cgroupfs" : "disabled", hasCgroups() ? "memory = \"64m\"\ntasks = 20" : "", "");
    }

    @AfterEach
    void stopAll() throws Exception {
        Files.deleteIfExists(a.folder().resolve("hang"));
        Files.deleteIfExists(a.folder().resolve("hangs"));
        if (!a.service().isAlive()) {
            a.start("");
        }
        a.stopAll();
        b.stopAll();
    }

    @AfterAll
    static void end() throws IOException {
        if (testbed != null) {
            testbed.close();
        }
    }

    @Test
    void shouldLiveInNamespacesOfItsOwnWhenAUserRunsIt() throws Exception {
        JsonNode answer = a.ask(
                PodNode.OWNER,
                "{\"request\": \"pod_run\", \"name\": \"own\", \"output\": \"/tmp/out\","
                        + " \"environment\": [\"MINE=yes\", \"HOME=/mine\"], \"command\": [\"sh\", \"-c\","
                        + " \"cat /proc/self/status /proc/self/limits; echo mine $MINE $HOME;"
                        + " echo end; exec sleep 600\"]}");
        assertEquals("1/own", answer.path("pod").path("name").asText(), answer.toString());
        assertEquals("10.20.0.10", answer.path("pod").path("address").asText());
        assertEquals("02:50:0a:14:00:0a", answer.path("pod").path("mac").asText());
        String said = a.awaitOutput("1/own", "end");
        assertTrue(said.contains("mine yes /mine\n"), said);
        String further = a.execute("1/own", "cat", "/proc/self/status", "/proc/self/limits")
                .output();
        for (String status : List.of(said, further)) {
            for (String set : List.of("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")) {
                assertTrue(status.contains(set + ":\t" + NO_CAPABILITIES), set + ": " + status);
            }
            assertTrue(status.contains("NoNewPrivs:\t1"), status);
            assertTrue(status.contains("Uid:\t1\t1\t1\t1"), status);
            assertTrue(status.contains("Gid:\t1\t1\t1\t1"), status);
            assertTrue(status.matches("(?s).*Max locked memory +65536 +65536 .*"), status);
        }
        assertEquals(
                "own", a.execute("1/own", "cat", "/proc/sys/kernel/hostname").output());
        assertEquals("ppmr-pod", a.execute("1/own", "cat", "/proc/1/comm").output());
        assertEquals(
                "200",
                a.execute("1/own", "cat", "/proc/sys/net/ipv4/tcp_retries2").output());
        String links = a.execute("1/own", "cat", "/proc/net/dev").output();
        assertEquals(Set.of("lo", "eth0"), names(links), links);
        int init = a.list().get(0).init();
        for (String kind : List.of("pid", "mnt", "net", "ipc", "uts")) {
            String script = "readlink /proc/%s/ns/" + kind;
            assertNotEquals(
                    a.run("sh", "-c", script.formatted("self")), a.run("sh", "-c", script.formatted("" + init)), kind);
        }
    }

    private static Set<String> names(String interfaces) {
        return interfaces
                .lines()
                .filter(line -> line.contains(":"))
                .map(line -> line.substring(0, line.indexOf(':')).strip())
                .collect(Collectors.toSet());
    }

    @Tag("soak")
    @Test
    void shouldHaveNoDescriptorFromOutsideWhenItRuns() throws Exception {
        a.runFor(PodNode.OWNER, "closed", "sh", "-c", "sleep 600 & sleep 600");
        Conditions.until("all of it runs", () -> a.list().get(0).processes() == 4);
        // proc(5): mnt_id of a descriptor, and the first field of a mount.
        String foreign = a.run("perl", "-e", """
            my ($init) = @ARGV;
            my $space = readlink "/proc/$init/ns/pid";
            for my $process (glob "/proc/[0-9]*") {
                next unless (readlink("$process/ns/pid") // "") eq $space;
                open my $mounts, "<", "$process/mountinfo" or next;
                my %there = map { (split)[0] => 1 } <$mounts>;
                for my $fd (glob "$process/fdinfo/*") {
                    open my $info, "<", $fd or next;
                    my ($mount) = map { /^mnt_id:\\s*(\\d+)/ ? $1 : () } <$info>;
                    print "$fd " unless $there{$mount};
                    $seen++;
                }
            }
            print "none of $seen";
            """, "" + a.list().get(0).init());
        // Four processes with three standard streams each.
        assertEquals("none of 12", foreign);
    }

    @Tag("soak")
    @Test
    void shouldReachAPodOfAnotherNodeByItsAddressWhenBridgesAreJoined() throws Exception {
        PodStatus server = b.runFor(PodNode.OTHER, "server", "perl", "-MIO::Socket::INET", "-e", """
            $SIG{ALRM} = sub { die "too late" }; alarm 120;
            my $all = IO::Socket::INET->new(Listen => 1, LocalPort => 7000, ReuseAddr => 1) or die "listen: $!";
            $| = 1; print "listens\\n";
            my $one = $all->accept or die "accept: $!";
            while (read $one, my $block, 65536) { print $one scalar reverse $block; $one->flush }
            sleep 600;
            """);
        b.awaitOutput("8/server", "listens");
        a.runFor(PodNode.OWNER, "client", "perl", "-MIO::Socket::INET", "-e", """
            $SIG{ALRM} = sub { die "too late" }; alarm 120; $| = 1;
            my $peer = IO::Socket::INET->new("$ARGV[0]:7000") or die "connect: $!";
            for my $number (1 .. $ARGV[1]) {
                my $block = pack "N*", map { $number * $_ } 1 .. 16384;
                print $peer $block; $peer->flush;
                read $peer, my $back, 65536;
                die "block $number is wrong" unless $back eq reverse $block;
            }
            print "right: ", $peer->peerhost, " to ", $peer->sockhost, "\\n"; sleep 600;
            """, server.address(), "" + BLOCKS);
        String said = a.awaitOutput("1/client", "right: ");
        assertTrue(said.contains("right: " + server.address() + " to 10.20.0.1"), said);
    }

    @Tag("soak")
    @Test
    void shouldHaveTmpAndShmOfItsOwnSizeWhenTheyAreFilled() throws Exception {
        a.runFor(PodNode.OWNER, "one", "sleep", "600");
        a.runFor(PodNode.OWNER, "two", "sleep", "600");
        for (String place : List.of("/tmp", "/dev/shm")) {
            String said = a.execute(
                            "1/one",
                            "sh",
                            "-c",
                            "head -c 4194304 /dev/zero >" + place + "/big; wc -c <" + place + "/big")
                    .output();
            assertTrue(said.contains("No space left on device"), said);
            assertTrue(said.contains("1048576"), said);
            assertFalse(a.execute("1/two", "ls", place).output().contains("big"));
            assertFalse(Files.exists(Path.of(place, "big")));
        }
    }

    /** Returns true if root can make cgroups of version 1 or 2 where the runtime makes them. */
    private static boolean hasCgroups() {
        return Stream.of("/sys/fs/cgroup", "/sys/fs/cgroup/pids")
                .map(Path::of)
                .anyMatch(place -> Files.isWritable(place.resolve("cgroup.procs")));
    }

    @Tag("soak")
    @Test
    void shouldHaveNoMoreTasksAndMemoryThanTheTemplateSaysWhenItTakesMore() throws Exception {
        Assumptions.assumeTrue(hasCgroups(), "needs cgroups that can be written");
        b.runFor(PodNode.OWNER, "limited", "sleep", "600");
        String many = b.execute(
                        "1/limited",
                        "sh",
                        "-c",
                        "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i + 1)); done; echo done")
                .output();
        assertTrue(many.contains("Cannot fork") || many.contains("Resource temporarily unavailable"), many);
        assertTrue(b.list().get(0).processes() <= 20, b.list().toString());
        b.stop("1/limited");
        b.runFor(PodNode.OWNER, "large", "sleep", "600");
        String large = b.execute("1/large", "perl", "-e", "my $all = q{x} x (256 << 20); print length $all")
                .output();
        assertFalse(large.contains(Integer.toString(256 << 20)), large);
        assertEquals("small", b.execute("1/large", "echo", "small").output());
        b.stop("1/large");
        // What PodNode has put in the place of version 2 keeps plain directories.
        assertEquals(
                "", b.run("sh", "-c", "find /sys/fs/cgroup -path '*/unified' -prune -o -name 'ppmr-pod-*' -print"));
    }

    @Tag("soak")
    @Test
    void shouldLeaveNothingWhenTheCommandCannotBegin() throws Exception {
        RequestException refused =
                assertThrows(RequestException.class, () -> a.runFor(PodNode.OWNER, "bad", "/no/such/program"));
        assertTrue(refused.getMessage().contains("cannot begin: the command: No such file"), refused.getMessage());
        requireNothingLeft(a);
        assertEquals(
                "10.20.0.10", a.runFor(PodNode.OWNER, "good", "sleep", "600").address());
    }

    private static void requireNothingLeft(PodNode node) throws Exception {
        assertEquals(List.of(), node.list());
        try (Stream<Path> left = Files.list(node.folder().resolve("pods"))) {
            assertEquals(List.of(), left.toList());
        }
        assertFalse(node.hasLink("ppmr0a14000a"));
        assertEquals("", node.podProcesses());
    }

    @Tag("soak")
    @Test
    void shouldEndWithItsCommandAndBeTakenAwayWhenThatEnds() throws Exception {
        PodStatus pod = a.runFor(
                PodNode.OWNER, "short", "sh", "-c", "setsid sleep 600 & until [ -e /tmp/go ]; do sleep 0.05; done");
        assertTrue(a.hasLink(pod.link()));
        Path pods = a.folder().resolve("pods");
        assertTrue(a.run("cat", "/proc/self/mountinfo").contains(pods.resolve("1-short/net") + " "));
        a.execute("1/short", "touch", "/tmp/go");
        // This sends no query, because a network without a pod would answer for its address.
        Conditions.until("nothing is left of it", () -> {
            try (Stream<Path> left = Files.list(pods)) {
                return left.findAny().isEmpty();
            }
        });
        requireNothingLeft(a);
        assertFalse(a.run("cat", "/proc/self/mountinfo").contains(pods + "/"));
    }

    /** Pods of that release have no file for their network. */
    @Tag("soak")
    @Test
    void shouldFindItsNetworkWhenAnEarlierReleaseHasMadeThePod() throws Exception {
        PodStatus pod = a.runFor(PodNode.OWNER, "older", "sleep", "600");
        Path file = a.folder().resolve("pods/1-older/net");
        a.service().kill();
        a.run("umount", file.toString());
        Files.delete(file);
        a.start("");
        assertEquals(
                a.run("stat", "--dereference", "--format=%i", "/proc/" + pod.init() + "/ns/net"),
                a.run("stat", "--format=%i", file.toString()));
        a.stop("1/older");
        requireNothingLeft(a);
    }

    @Tag("soak")
    @Test
    void shouldEndACommandThatDoesNotWantToWhenStopped() throws Exception {
        a.runFor(PodNode.OWNER, "stubborn", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done");
        a.awaitOutput("1/stubborn", "ready");
        long beganNs = System.nanoTime();
        assertEquals("ended", a.stop("1/stubborn").state());
        // It had the full time.
        assertTrue(System.nanoTime() - beganNs >= TimeUnit.SECONDS.toNanos(10));
        requireNothingLeft(a);
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhenTheServiceIsKilledAndStartedAgain() throws Exception {
        PodStatus pod = a.runFor(PodNode.OWNER, "lasting", "sleep", "600");
        a.service().kill();
        a.start("");
        PodStatus now = a.list().get(0);
        assertEquals(pod.init(), now.init());
        assertEquals(
                "sleep", a.execute("1/lasting", "sh", "-c", "cat /proc/2/comm").output());
        a.stop("1/lasting");
        requireNothingLeft(a);
    }

    @Tag("soak")
    @Test
    void shouldTakeAwayWhatIsHalfMadeWhenItsServiceWasKilled() throws Exception {
        Files.createFile(a.folder().resolve("hang"));
        CompletableFuture<Exception> asked = CompletableFuture.supplyAsync(
                () -> assertThrows(Exception.class, () -> a.runFor(PodNode.OWNER, "half", "sleep", "600")));
        Conditions.until("the pod is half made", () -> Files.exists(a.folder().resolve("hangs")));
        assertTrue(a.hasLink("ppmr0a14000a"));
        a.service().kill();
        asked.get(Patience.of(60), TimeUnit.SECONDS);
        Files.delete(a.folder().resolve("hang"));
        a.start("");
        requireNothingLeft(a);
    }

    @Test
    void shouldBeUsedFromTheCommandLineWhenAnOperatorTypes() throws Exception {
        String socket = a.socket().toString();
        PpmrCommand ran = PpmrCommand.run(
                "pod",
                "run",
                "--socket",
                socket,
                "--user",
                "1",
                "--output",
                "/tmp/out",
                "typed",
                "--",
                "sh",
                "-c",
                "echo said; exec sleep 600");
        assertEquals(0, ran.exitCode(), ran.said());
        assertTrue(ran.said().contains("pod 1/typed runs at 10.20.0.10"), ran.said());
        a.awaitOutput("1/typed", "said");
        PpmrCommand executed =
                PpmrCommand.run("pod", "exec", "--socket", socket, "1/typed", "--", "sh", "-c", "echo here; exit 7");
        assertEquals(7, executed.exitCode(), executed.said());
        assertEquals("here", executed.said());
        assertEquals(
                0,
                PpmrCommand.run(
                                "pod",
                                "exec",
                                "--detach",
                                "--output",
                                "/tmp/more",
                                "--socket",
                                socket,
                                "1/typed",
                                "--",
                                "sh",
                                "-c",
                                "echo more; exec sleep 500")
                        .exitCode());
        Conditions.until("it continues below the init", () -> a.execute(
                        "1/typed", "sh", "-c", "cat /tmp/more; grep -h PPid /proc/[0-9]*/status")
                .output()
                .startsWith("more"));
        assertEquals(3, a.list().get(0).processes());
        assertEquals(
                PpmrCommand.run("pod", "list", "--socket", socket).said(),
                Command.of(List.of(
                                NativePrograms.fromSystemProperty()
                                        .directory()
                                        .resolve("ppmr-client")
                                        .toString(),
                                "/nonexistent",
                                "/nonexistent",
                                "/nonexistent",
                                "pod",
                                "list",
                                "--socket",
                                socket))
                        .run(Duration.ofSeconds(60))
                        .requireOutput()
                        .strip());
        PpmrCommand shown = PpmrCommand.run("pod", "show", "--socket", socket, "1/typed");
        assertTrue(shown.said().contains("10.20.0.10, 02:50:0a:14:00:0a"), shown.said());
        PpmrCommand stopped = PpmrCommand.run("pod", "stop", "--socket", socket, "1/typed");
        assertEquals("pod 1/typed ended", stopped.said());
        requireNothingLeft(a);
        assertEquals(
                4, PpmrCommand.run("pod", "show", "--socket", socket, "1/typed").exitCode());
    }

    /** Starts a command on the node that keeps a pod of job "kept", and waits until the pod runs. */
    private static Process keeping(String name, Path output) throws Exception {
        List<String> words = ServiceProcess.command(
                "pod",
                "run",
                "--attach",
                "--socket",
                a.socket().toString(),
                "--user",
                "1",
                "--job",
                "kept",
                name,
                "--",
                "sleep",
                "600");
        Process keeper = new ProcessBuilder(a.words(words.toArray(String[]::new)))
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        Conditions.until(PodNode.LIMIT, "pod " + name + " is kept", () -> Files.readString(output)
                .contains("ppmr-pod 1/" + name + " at 10.20.0.1"));
        return keeper;
    }

    @Tag("soak")
    @Test
    void shouldEndWithWhatKeepsThemWhenItsInputEndsOrItIsToldToEnd() throws Exception {
        Path first = a.folder().resolve("first.out");
        Path second = a.folder().resolve("second.out");
        Process byInput = keeping("first", first);
        Process bySignal = keeping("second", second);
        assertEquals(
                List.of("kept", "kept"),
                a.list().stream().map(pod -> pod.specification().job()).toList());
        byInput.getOutputStream().close();
        assertTrue(byInput.waitFor(PodNode.LIMIT.toSeconds(), TimeUnit.SECONDS), Files.readString(first));
        assertEquals(0, byInput.exitValue(), Files.readString(first));
        assertEquals(List.of("1/second"), a.list().stream().map(PodStatus::name).toList());
        // The signal goes only to the node's processes.
        a.run("sh", "-c", "kill -TERM $(pgrep -f 'pod run --attach .* [s]econd')");
        assertTrue(bySignal.waitFor(PodNode.LIMIT.toSeconds(), TimeUnit.SECONDS), Files.readString(second));
        assertEquals(0, bySignal.exitValue(), Files.readString(second));
        assertEquals(List.of(), a.list());
    }

    @Tag("soak")
    @Test
    void shouldEndTogetherAndSaySoWhenTheirJobIsStopped() throws Exception {
        Path output = a.folder().resolve("gone.out");
        Process keeper = keeping("first", output);
        a.runFor(PodNode.OWNER, "alone", "sleep", "600");
        PpmrCommand stopped =
                PpmrCommand.run("pod", "stop", "--socket", a.socket().toString(), "--job", "1/kept");
        assertEquals(0, stopped.exitCode(), stopped.said());
        assertEquals(List.of("1/alone"), a.list().stream().map(PodStatus::name).toList());
        assertTrue(keeper.waitFor(PodNode.LIMIT.toSeconds(), TimeUnit.SECONDS), Files.readString(output));
        assertTrue(Files.readString(output).contains("ppmr-pod 1/first gone"), Files.readString(output));
    }

    @Tag("soak")
    @Test
    void shouldGiveEachAddressOnceWhenAllAreTaken() throws Exception {
        try (PodClient client = new PodClient(a.socket())) {
            PodOrder picked = new PodOrder(
                    new PodSpecification("picked", null, null, List.of(), List.of("sleep", "600")),
                    "10.20.0.13",
                    "1",
                    null,
                    null,
                    null,
                    null);
            assertEquals("10.20.0.13", client.runPod(picked).address());
        }
        for (int number = 0; number < 4; number++) {
            a.runFor(PodNode.OWNER, "n" + number, "sleep", "600");
        }
        assertEquals(5, a.list().stream().map(PodStatus::address).distinct().count());
        RequestException refused =
                assertThrows(RequestException.class, () -> a.runFor(PodNode.OWNER, "more", "sleep", "600"));
        assertTrue(refused.getMessage().contains("pods have all addresses"), refused.getMessage());
        assertEquals(
                "10.20.0.15", a.runFor(PodNode.OTHER, "others", "sleep", "600").address());
    }
}
