package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Jobs with state that CRIU leaves out, or does not write, by real CRIU. ppmr moves it, or refuses the job before it is
 * stopped. Each job repeatedly checks that it still has its state.
 */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LeftOutStateIT {
    static final Path PROGRAM =
            Path.of(System.getProperty("ppmr.home"), "ppmr-checkpoint/target/native-test/state-job");

    /** State that ppmr reads from the original, and restores in the copy. */
    static final List<String> MOVED_BY_US = List.of(
            "affinity",
            "thread-affinity",
            "io-class",
            "slack",
            "core-filter",
            "congestion",
            "so-timestamp",
            "so-timestampns",
            "so-peek-off",
            "so-busy-poll",
            "so-rxq-ovfl",
            "so-zerocopy",
            "ip-recverr",
            "ip-recvtos",
            "ip-recvttl",
            "ip-mtu-discover",
            "ip-multicast-ttl",
            "ip-multicast-loop",
            "ip-multicast-all",
            "ipv6-unicast-hops",
            "ipv6-multicast-hops",
            "ipv6-tclass",
            "tcp-user-timeout",
            "tcp-maxseg",
            "tcp-syncnt",
            "tcp-linger2",
            "tcp-defer-accept",
            "tcp-window-clamp",
            "tcp-notsent-lowat",
            "tcp-fastopen-connect",
            "udp-segment",
            "udp-gro",
            "io-priority",
            "every-udp",
            "every-udp6",
            "every-tcp",
            "every-tcp6",
            "every-listener",
            "every-listener6",
            "every-raw",
            "every-unix-stream",
            "every-unix-dgram",
            "every-netlink",
            "every-packet");

    /** State that CRIU writes. */
    private static final List<String> MOVED_BY_CRIU = List.of(
            "batch",
            "nice",
            "oom",
            "huge-pages",
            "reaper",
            "undumpable",
            "not-inherited",
            "umask",
            "name",
            "owner",
            "pipe-size",
            "so-broadcast",
            "so-keepalive",
            "so-oobinline",
            "so-priority",
            "so-rcvlowat",
            "so-sndbuf",
            "so-rcvbuf",
            "so-passcred",
            "ip-tos",
            "ip-ttl",
            "ip-pktinfo",
            "ip-freebind",
            "ipv6-recvpktinfo",
            "ipv6-v6only",
            "tcp-nodelay",
            "tcp-keepidle",
            "wiped",
            "undumped",
            "locked",
            "unreserved",
            "limits",
            "secure-bits",
            "ambient",
            "thread-records",
            "interval-timers",
            "posix-timers",
            "timer-descriptor",
            "signals",
            "barrier",
            "async",
            "write-hint",
            "aio",
            "waits");

    /**
     * State that neither ppmr nor CRIU moves. The kernel shows it of no other process, and the job computes the same
     * without it.
     */
    private static final List<String> MOVED_BY_NOBODY = List.of(
            "memory-failure",
            "timestamps",
            "merging",
            "denial",
            "memory-policy",
            "area-policy",
            "locked-on-fault",
            "lock-of-later",
            "sealed",
            "directory-watch",
            "keyring");

    @TempDir
    private Path directory;

    private static String line(String kinds, String before) {
        return before + "setsid " + PROGRAM + " '" + kinds + "'" + " \"$PWD\"";
    }

    private CriuJob start(String kinds) throws IOException {
        return CriuJob.start(directory, line(kinds, ""));
    }

    private ServicePair pair(Checkpointer criu) throws IOException, InterruptedException {
        return new ServicePair(
                directory, ServicePair.Options.with(criu).alsoRootsJobs().staging(64 << 20));
    }

    private void move(List<String> kinds) throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = start(String.join(",", kinds));
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
            MigrationReport again =
                    job.migrate(pair, criu, report.ranks().get(0).pids().get(0));
            assertEquals(Outcome.COMMITTED, again.outcome(), again.reason());
            job.requireTurns();
            assertFalse(Files.exists(job.file("failed")), () -> read(job.file("failed")));
        }
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            return e.toString();
        }
    }

    /** Twice, since a copy is an original in its turn. */
    @Test
    void shouldMoveWhatCriuLeavesOutWhenAnotherProcessCanSetIt() throws Exception {
        move(MOVED_BY_US);
    }

    @Tag("soak")
    @Test
    void shouldMoveWhatCriuWrites() throws Exception {
        move(MOVED_BY_CRIU);
    }

    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"idle", "reset-on-fork", "real-time"})
    void shouldMoveASchedulingClass(String kind) throws Exception {
        move(List.of(kind));
    }

    /** The table lists the lost state. A state that moves in a later release has another line there. */
    @Tag("soak")
    @Test
    void shouldLoseOnlyWhatTheKernelShowsOfNoOtherProcess() throws Exception {
        Checkpointer criu = CriuJob.criu();
        String asked = MOVED_BY_NOBODY.stream().map(kind -> "?" + kind).collect(Collectors.joining(","));
        try (CriuJob job = start(asked);
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            assertFalse(Files.exists(job.file("failed")), () -> read(job.file("failed")));
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
            List<String> here = Files.readAllLines(job.file("kinds"));
            assertEquals(
                    here,
                    Files.readAllLines(job.file("failed")).stream()
                            .map(line -> line.substring(0, line.indexOf(':')))
                            .toList());
            assertTrue(here.containsAll(List.of("timestamps", "memory-policy", "lock-of-later")), here.toString());
        }
    }

    /** The call returns as after a handled signal. Programs that check its result wait for the rest. */
    @Tag("soak")
    @Test
    void shouldEndWaitsWithATimeLimitEarlyByEintr() throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = start("limited-waits,waits");
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
            String failed = Files.readString(job.file("failed"));
            assertTrue(
                    failed.contains("is 'nanosleep Interrupted system call, poll Interrupted system call,"
                            + " sem_timedwait Interrupted system call"),
                    failed);
            assertFalse(failed.contains("select"), failed);
        }
    }

    /** The kernel does not show that a process requests it. Its copy would receive it when the restart's tool ends. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"death-signal", "handled-death-signal"})
    void shouldGoOnWhenACopyGetsASignalThatNobodySent(String kind) throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = start(kind);
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            assertTrue(report.reason().contains("PR_SET_PDEATHSIG"), report.reason());
            job.requireTurns();
            assertFalse(Files.exists(job.file("failed")), () -> read(job.file("failed")));
        }
    }

    /** A job that must be refused, and words that the refusal must have. */
    private record Refused(String kind, String before, List<String> words) {
        static Refused of(String kind, String... words) {
            return new Refused(kind, "", List.of(words));
        }
    }

    /** One pair of services gets one job after the other. */
    private void refuse(List<Refused> kinds) throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (ServicePair pair = pair(criu)) {
            for (Refused refused : kinds) {
                Path parent = Files.createDirectory(directory.resolve(refused.kind()));
                try (CriuJob job = CriuJob.start(parent, line(refused.kind(), refused.before()))) {
                    job.requireTurns();
                    requireRefused(job.migrate(pair, criu), refused);
                    job.requireTurns();
                    assertFalse(Files.exists(job.file("failed")), () -> read(job.file("failed")));
                }
            }
        }
    }

    private static void requireRefused(MigrationReport report, Refused refused) {
        String reason = refused.kind() + ": " + report.reason();
        assertEquals(Outcome.REFUSED, report.outcome(), reason);
        assertTrue(reason.contains("rank 0 was not stopped: PID "), reason);
        assertTrue(reason.contains("(state-job)"), reason);
        assertTrue(reason.contains(". Remedy: "), reason);
        for (String word : refused.words()) {
            assertTrue(reason.contains(word), "'" + reason + "' does not say '" + word + "'");
        }
    }

    @Test
    void shouldRefuseBeforeThePauseWhatIsNotWritten() throws Exception {
        refuse(List.of(
                Refused.of("ring", "anon_inode:[io_uring] open as descriptor"),
                Refused.of("semaphore", "anon_inode:[eventfd] open as descriptor", "EFD_SEMAPHORE"),
                Refused.of("scratch", "job/scratch (deleted) open as descriptor 3, a file of 3 MiB", "--ghost-limit"),
                Refused.of("member", "is a member of the multicast group 239.1.2.3"),
                Refused.of("sandbox", "may be in a sandbox of Landlock", "landlock = \"allow\""),
                Refused.of("personality", "has the execution domain 00040000", "setarch")));
    }

    @Tag("soak")
    @Test
    void shouldRefuseEveryKindBeforeThePause() throws Exception {
        refuse(List.of(
                Refused.of("mapped-ring", "anon_inode:[io_uring] mapped"),
                Refused.of("faults", "anon_inode:[userfaultfd] open as descriptor"),
                Refused.of("counter", "anon_inode:[perf_event] open as descriptor"),
                Refused.of("guest-socket", "CRIU cannot write a socket of the protocol AF_VSOCK"),
                Refused.of("rules", "anon_inode:[landlock-ruleset] open as descriptor"),
                Refused.of("secret", "CRIU cannot read secret memory"),
                Refused.of("message-queue", "CRIU cannot write a POSIX message queue"),
                Refused.of("device", "CRIU cannot write a device of that kind (10:229)"),
                Refused.of("mapped-scratch", "job/scratch (deleted) mapped"),
                Refused.of("renamed", "--link-remap"),
                Refused.of("unicast-interface", "sends by an interface of its own choice"),
                Refused.of("member6", "is a member of the multicast group ff15:0:0:0:0:0:0:5007")));
    }

    /** The target lacks the address of this node's interface, according to the facts before the pause. */
    @Tag("soak")
    @Test
    void shouldRefuseASocketThatHasAnAddressOfTheNode() throws Exception {
        Optional<InetAddress> address = addressOfThisNode();
        assumeTrue(address.isPresent(), "this machine has no interface besides lo");
        String text = address.get().getHostAddress();
        String before = "sh -c 'printf %s " + text + " > address; exec \"$@\"' sh ";
        List<String> words = List.of("bound to " + text + " port ", "0.0.0.0");
        refuse(List.of(new Refused("bound", before, words), new Refused("reset", before, words)));
    }

    private static Optional<InetAddress> addressOfThisNode() throws IOException {
        for (NetworkInterface one : Collections.list(NetworkInterface.getNetworkInterfaces())) {
            for (InetAddress address : Collections.list(one.getInetAddresses())) {
                if (address instanceof Inet4Address && !address.isLoopbackAddress()) {
                    return Optional.of(address);
                }
            }
        }
        return Optional.empty();
    }

    /** The operator has seen to the room for it. */
    @Tag("soak")
    @Test
    void shouldMoveALargeScratchFileWhenTheOperatorRaisesTheLimit() throws Exception {
        Checkpointer criu = CriuJob.criu("--ghost-limit", "16M");
        try (CriuJob job = start("scratch");
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
        }
    }

    @Tag("soak")
    @Test
    void shouldMoveWhatMayBeInASandboxWhenTheOperatorAllowsIt() throws Exception {
        Checkpointer criu = CriuJob.criuAllowingSandboxes();
        try (CriuJob job = start("no-new-privileges");
                ServicePair pair = pair(criu)) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
            assertFalse(Files.exists(job.file("failed")), () -> read(job.file("failed")));
        }
    }
}
