package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.RequestException;
import io.ppmr.pods.PodStatus;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Moves of one user's pod by CRIU under attack. Another user runs eight commands at a time in a pod of its own, which
 * print 4 MiB each. That user also holds 160,000 record locks. In turn with the attack, the same number of processes
 * prints as much into nothing.
 */
@Tag("soak")
@Timeout(value = 15, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodUnderAttackIT {
    private static final Logger LOG = LoggerFactory.getLogger(PodUnderAttackIT.class);
    private static final String ATTACKER = "8";
    private static final int ROUNDS = 8;
    private static final double MOST_TIMES = 2;
    private static final double MOST_TIMES_FOR_ONE = 5;
    private static final double ANSWER_SECONDS = 1;
    private static final String NO_ID = "0".repeat(36);
    private static final String ATTACK = """
            use strict;
            use warnings;
            use Fcntl;
            use IO::Socket::UNIX;
            my ($socket, $request) = @ARGV;
            my $parent = $$;
            $SIG{PIPE} = 'IGNORE';
            $| = 1;
            for (1 .. 8) {
                my $child = fork;
                die "fork: $!" if !defined $child;
                next if $child;
                while (getppid == $parent) {
                    my $to = IO::Socket::UNIX->new(Peer => $socket) or next;
                    print $to "$request\\n";
                    my $answer = <$to>;
                    syswrite STDOUT, $answer && $answer =~ /"executed"/ ? "e\\n" : "r\\n";
                }
                exit;
            }
            my @held;
            for my $number (1 .. 160) {
                open my $file, '+>', undef or die "a file of locks: $!";
                for my $at (1 .. 1000) {
                    fcntl $file, F_SETLK, pack 's s x4 q q l x4', F_RDLCK, 0, 2 * $at, 1, 0 or die "lock: $!";
                }
                push @held, $file;
            }
            syswrite STDOUT, "locked\\n";
            1 while wait != -1;
            """;
    private static final String LOAD = "i=0; while [ $i -lt 8 ]; do"
            + " (while :; do head -c 4194304 /dev/zero | tr '\\0' '\\1' >/dev/null; sleep 1; done) &"
            + " i=$((i+1)); done; wait";

    private final List<Double> waits = new ArrayList<>();
    private Testbed testbed;
    private MovingNode a;
    private MovingNode b;
    private Process other;
    private Path printed;

    @BeforeEach
    void start() throws Exception {
        MovingNode.assumePossible();
        testbed = Testbed.create("pod-excess");
        String templates = """
                tmp = "8m"
                shm = "8m"
                [pods.other]
                bridge = "br0"
                shares = [{user = %s, first = "10.20.0.100", last = "10.20.0.109"}]
                """.formatted(ATTACKER);
        a = new MovingNode(testbed, 1, templates);
        b = new MovingNode(testbed, 2, templates);
        MovingNode.connect(a, b);
        a.start();
        b.start();
        printed = Files.createFile(
                Path.of("/var/tmp", "ppmr-pod-excess-" + ProcessHandle.current().pid()),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-r--r--")));
    }

    @AfterEach
    void end() throws Exception {
        try {
            endOther();
        } finally {
            if (testbed != null) {
                testbed.close();
            }
            if (printed != null) {
                Files.deleteIfExists(printed);
            }
        }
    }

    private void begin(String... command) throws Exception {
        List<String> words =
                new ArrayList<>(List.of("setpriv", "--reuid", ATTACKER, "--regid", ATTACKER, "--clear-groups"));
        words.addAll(List.of(command));
        other = new ProcessBuilder(words)
                .directory(Path.of("/").toFile())
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(printed.toFile()))
                .start();
    }

    private void endOther() throws Exception {
        if (other != null) {
            List<ProcessHandle> children = new ArrayList<>(other.descendants().toList());
            other.destroyForcibly().waitFor();
            children.forEach(ProcessHandle::destroyForcibly);
            other = null;
        }
    }

    private void attack() throws Exception {
        String request = "{\"request\": \"pod_exec\", \"order\": {\"name\": \"loud\", \"command\":"
                + " [\"sh\", \"-c\", \"head -c 4194304 /dev/zero | tr '\\\\0' '\\\\1'\"]}}";
        begin("perl", "-e", ATTACK, a.socket().toString(), request);
    }

    /** Moves the pod there and back, and adds the seconds of both. */
    private void thereAndBack(String pod, List<Double> seconds) throws Exception {
        for (int way = 0; way < 2; way++) {
            MovingNode from = way == 0 ? a : b;
            long startNs = System.nanoTime();
            PpmrCommand moved = from.move(pod, way == 0 ? b : a);
            seconds.add((System.nanoTime() - startNs) / 1e9);
            if (moved.exitCode() != 0) {
                fail(moved.said() + logs());
            }
            answers();
        }
    }

    private String logs() throws IOException {
        StringBuilder logs = new StringBuilder();
        for (MovingNode node : List.of(a, b)) {
            for (String service : List.of("source", "target")) {
                logs.append('\n').append(Files.readString(node.folder().resolve(service + ".log")));
            }
        }
        return logs.toString();
    }

    private void answers() throws Exception {
        long startNs = System.nanoTime();
        try (ControlClient client = new ControlClient(a.socket())) {
            client.status();
        }
        waits.add((System.nanoTime() - startNs) / 1e9);
        startNs = System.nanoTime();
        try (ControlClient client = new ControlClient(a.socket())) {
            assertThrows(RequestException.class, () -> client.cancel(NO_ID));
        }
        waits.add((System.nanoTime() - startNs) / 1e9);
    }

    @Test
    void shouldMoveAPodWithoutBeingHeldUpWhileAnotherUsersCommandsPrintAndLocksAreHeld() throws Exception {
        PodStatus pod = a.runPodAt(
                "victim",
                "10.20.0.14",
                "perl",
                "-e",
                "$| = 1; $m = 'x' x (64 << 20); print 'filled'; sleep 600 while 1");
        a.await(pod, "filled");
        String said = a.askAs(
                Integer.parseInt(ATTACKER),
                "{\"request\": \"pod_run\", \"name\": \"loud\", \"template\": \"other\","
                        + " \"command\": [\"sh\", \"-c\", \"sleep 6000 & wait\"]}");
        assertTrue(said.contains("\"pod\""), said);
        List<Double> warm = new ArrayList<>();
        thereAndBack("1/victim", warm);
        List<Double> attacked = new ArrayList<>();
        List<Double> loaded = new ArrayList<>();
        for (int round = 0; round < ROUNDS; round++) {
            attack();
            thereAndBack("1/victim", attacked);
            endOther();
            begin("sh", "-c", LOAD);
            thereAndBack("1/victim", loaded);
            endOther();
        }
        List<String> lines = Files.readAllLines(printed);
        long executed = lines.stream().filter("e"::equals).count();
        long locked = lines.stream().filter("locked"::equals).count();
        double median = median(loaded);
        String found = "%d moves under attack, median %.2f s, longest %.2f s; beside load %.2f and %.2f s"
                .formatted(attacked.size(), median(attacked), longest(attacked), median, longest(loaded));
        LOG.info("{}; {} commands printed, {} times all was locked", found, executed, locked);
        LOG.info("the operator waited at most {} s", longest(waits));
        assertTrue(executed > ROUNDS, "commands were carried out: " + executed);
        assertEquals(ROUNDS, locked, () -> "all locks were taken: " + lines.subList(0, Math.min(20, lines.size())));
        assertTrue(median(attacked) <= MOST_TIMES * median, found);
        assertTrue(longest(attacked) <= Math.max(MOST_TIMES_FOR_ONE * median, longest(loaded)), found);
        assertTrue(longest(waits) <= ANSWER_SECONDS, "the operator waited " + longest(waits) + " s");
    }

    private static double longest(List<Double> seconds) {
        return seconds.stream().max(Double::compare).orElseThrow();
    }

    private static double median(List<Double> seconds) {
        List<Double> sorted = seconds.stream().sorted().toList();
        return sorted.get(sorted.size() / 2);
    }
}
