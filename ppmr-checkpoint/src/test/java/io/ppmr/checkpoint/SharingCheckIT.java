package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.limits.CriuChecks;
import io.ppmr.checkpoint.limits.CriuChecks.SandboxRule;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcMaps;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests real processes that share kernel objects, and others that share none. */
@Timeout(60)
class SharingCheckIT {
    /** Maximum number of reads of a process's objects in a check, in addition to the time of a normal machine. */
    private static final int MOST_READS = 20;

    private static final Path PROGRAMS = Path.of("target/native-test").toAbsolutePath();
    private static final Duration LIMIT = JobFixture.LIMIT;

    private final ProcessTable table = new ProcessTable();
    private final List<Process> started = new ArrayList<>();
    private final List<ProcessIdentity> noted = new ArrayList<>();

    @TempDir
    private Path directory;

    @AfterEach
    void tearDown() throws Exception {
        SignalSender signals = new SignalSender(table);
        signals.sendAll(SignalSender.Signal.KILL, noted);
        for (Process process : started) {
            Optional<ProcessIdentity> root = table.find((int) process.pid());
            if (root.isPresent()) {
                signals.sendAll(SignalSender.Signal.KILL, table.tree(root.get()));
            }
            assertTrue(process.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS));
        }
    }

    private Process start(String... words) throws IOException {
        List<String> all = new ArrayList<>(List.of("setsid"));
        all.addAll(List.of(words));
        Process process = new ProcessBuilder(all)
                .directory(directory.toFile())
                .redirectInput(new File("/dev/null"))
                .redirectOutput(new File("/dev/null"))
                .redirectError(new File("/dev/null"))
                .start();
        started.add(process);
        return process;
    }

    private Process share(String kind, int ranks) throws IOException {
        return start(PROGRAMS.resolve("sharing-job").toString(), kind, directory.toString(), Integer.toString(ranks));
    }

    private Map<Integer, ProcessIdentity> ranks(int number) throws Exception {
        Map<Integer, ProcessIdentity> roots = new LinkedHashMap<>();
        for (int rank = 0; rank < number; rank++) {
            Path file = directory.resolve(rank == 0 ? "pid" : "pid.1");
            assertTrue(
                    Polling.until(
                            LIMIT,
                            () -> Files.exists(file) && Files.readString(file).endsWith("\n")),
                    file + " is missing");
            ProcessIdentity root =
                    table.of(Integer.parseInt(Files.readString(file).strip()));
            noted.add(root);
            roots.put(rank, root);
        }
        assertTrue(Polling.until(LIMIT, () -> Files.exists(directory.resolve("turns"))));
        return roots;
    }

    private static final CriuChecks LOOKS = new CriuChecks(List.of(), false, SandboxRule.PASS, false);

    private SharingCheck check() {
        return new SharingCheck(table, List.of(), LOOKS, Duration.ofMillis(50), LIMIT);
    }

    private String refused(Map<Integer, ProcessIdentity> roots) {
        String message = assertThrows(CheckpointException.class, () -> check().require(roots, true))
                .getMessage();
        assertTrue(message.contains(" was not stopped: PID "), message);
        assertTrue(message.contains(". Remedy: "), message);
        return message;
    }

    private static void assertContainsAll(String message, String... words) {
        for (String word : words) {
            assertTrue(message.contains(word), "'" + message + "' does not say '" + word + "'");
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "pipe-out | the pipe pipe:[ | its data is read by | >> FILE",
                "pipe-in | the pipe pipe:[ | its data is written by | </dev/null",
                "fifo | /fifo | its data is read by | >> FILE",
                "pair | the Unix socket | its other end belongs to | suspend hook",
                "stream | /names | its other end belongs to | external_sockets",
                "log | /log | its other end belongs to | external_sockets",
                "served | /served | its other end belongs to | suspend hook",
                "tcp | socket:[ | the same socket is open in | close it",
                "anonymous | /dev/zero (deleted) | the same memory belongs to | a mapping",
                "memfd | /memfd:shared (deleted) | the same memory belongs to | as descriptor",
                "mapped | /mapped | the same memory belongs to | a mapping",
                "file | /shared.out | the same open file | >> FILE",
                "input | /input | the same open file | /dev/null",
                "eventfd | anon_inode:[eventfd] | the same open file | as descriptor",
                "epoll | watches by epoll | it belongs to | before it closes the file",
                "terminal | the terminal /dev/pts/ | its other end belongs to | </dev/null",
                "pidfd | has a pidfd of | outside of the rank | close it",
                "traced | is traced | no process has two tracers | detach it",
            })
    void shouldRefuseWhenAProcessOutsideHoldsIt(String kind, String what, String relation, String more)
            throws Exception {
        Process outside = share(kind, 1);
        Map<Integer, ProcessIdentity> roots = ranks(1);
        if (kind.equals("traced")) {
            assertTrue(Polling.until(LIMIT, () -> !tracer(roots.get(0).pid()).equals("0")));
        }
        String message = refused(roots);
        assertContainsAll(message, "PID " + roots.get(0).pid() + " (sharing-job)", what, relation, more);
        assertContainsAll(message, "PID " + outside.pid() + " (sharing-job)");
    }

    private static String tracer(int pid) {
        try {
            return ProcStat.field(Path.of("/proc/" + pid + "/status"), "TracerPid")
                    .orElseThrow();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"widowed", "tables", "appended", "named", "folder", "devices", "own-pidfd"})
    void shouldRefuseNothingWhenSharingItChangesNothing(String kind) throws Exception {
        share(kind, 1);
        Map<Integer, ProcessIdentity> roots = ranks(1);
        assertDoesNotThrow(() -> check().require(roots, true));
        assertFalse(Files.exists(directory.resolve("failed")));
    }

    /** All kinds that move according to the page on CRIU. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "memory",
                "threads",
                "children",
                "zombie",
                "file",
                "unlinked",
                "roots-file",
                "locks",
                "pipe",
                "fifo",
                "socketpair",
                "unix",
                "tcp-listening",
                "tcp-established",
                "udp",
                "shared",
                "shm",
                "memfd",
                "sysv",
                "events",
                "inotify",
                "timers",
                "pending",
                "terminal",
                "seccomp",
                "no-new-privs",
                "undumpable",
                "nice",
                "locked",
                "limit",
                "plain"
            })
    void shouldRefuseNothingWhenItIsAllWithinTheRank(String kind) throws Exception {
        Process rank = start(PROGRAMS.resolve("kinds-job").toString(), kind, ".");
        assertTrue(Polling.until(LIMIT, () -> Files.exists(directory.resolve("turns"))));
        Map<Integer, ProcessIdentity> roots = Map.of(0, table.of((int) rank.pid()));
        assertDoesNotThrow(() -> check().require(roots, true));
    }

    @Test
    void shouldRefuseWhenAFirstThreadHasEndedAndOthersRun() throws Exception {
        share("leader", 1);
        Map<Integer, ProcessIdentity> roots = ranks(1);
        assertTrue(Polling.until(LIMIT, () -> isZombie(roots.get(0).pid())));
        assertContainsAll(
                assertThrows(CheckpointException.class, () -> check().require(roots, true))
                        .getMessage(),
                "PID " + roots.get(0).pid() + " (sharing-job) has threads that run and a first thread that ended",
                "pthread_join(3)");
    }

    private static boolean isZombie(int pid) {
        return ProcStat.read("/proc/" + pid + "/stat").orElseThrow().isDead();
    }

    /** CRIU: Can't lookup mount=24 for fd=4. */
    @Test
    void shouldRefuseWhenAFileIsOpenThroughAMountOfAnotherNamespace() throws Exception {
        String inside = "echo $$ >pid.part; mv pid.part pid; echo 1 >turns; sleep 100; true";
        start("sh", "-c", "exec 4>>log; exec unshare -m sh -c '" + inside + "'");
        String message = refused(ranks(1));
        assertContainsAll(message, "through a mount that is not in its mount namespace", "open its files itself");
        assertDoesNotThrow(() -> check().require(ranks(1), false));
    }

    /** The memory belongs to a service. */
    @Tag("soak")
    @Test
    void shouldLookInProportionWhenARankHasManyOfEverything() throws Exception {
        share("many", 1);
        Map<Integer, ProcessIdentity> roots = ranks(1);
        long readMs = readOnceMs(roots.get(0).pid());
        long beganNs = System.nanoTime();
        assertDoesNotThrow(() -> check().require(roots, true));
        long tookMs = (System.nanoTime() - beganNs) / 1_000_000;
        // The check scans several times. A quadratic time would take minutes.
        assertTrue(
                tookMs < 5000L * Integer.getInteger("ppmr.patience", 1) + MOST_READS * readMs,
                tookMs + " ms, and " + readMs + " ms to read each once");
    }

    /** Returns the time in which this machine reads each descriptor, thread and mapping of a process once. */
    private static long readOnceMs(int pid) throws IOException {
        long beganNs = System.nanoTime();
        String own = "/proc/" + pid;
        for (int number : ProcessTable.numbers(own + "/fd")) {
            ProcFiles.link(own + "/fd/" + number);
            ProcFiles.text(own + "/fdinfo/" + number, 1 << 16);
        }
        for (int thread : ProcessTable.numbers(own + "/task")) {
            ProcFiles.text(own + "/task/" + thread + "/status", 1 << 20);
        }
        ProcMaps.read(pid, line -> {});
        return (System.nanoTime() - beganNs) / 1_000_000;
    }

    @Test
    void shouldFindWhatARankThatIsHeldHasComeToShare() throws Exception {
        share("pipe-out", 1);
        Map<Integer, ProcessIdentity> roots = ranks(1);
        String message = assertThrows(CheckpointException.class, () -> check().requireHeld(roots))
                .getMessage();
        assertContainsAll(message, "rank 0 came to share an object", "its data is read by");
    }

    @ParameterizedTest
    @ValueSource(strings = {"file", "anonymous", "tcp", "eventfd"})
    void shouldNameTheCommonLeaderWhenTwoRanksShareIt(String kind) throws Exception {
        Process leader = share(kind, 2);
        Map<Integer, ProcessIdentity> roots = ranks(2);
        assertContainsAll(
                refused(roots),
                "which belongs to rank 1, and each rank is moved separately",
                "Remedy: name PID " + leader.pid() + " (sharing-job)",
                "as the one rank of the job");
        Map<Integer, ProcessIdentity> both = Map.of(0, table.of((int) leader.pid()));
        assertDoesNotThrow(() -> check().require(both, true));
    }

    @Test
    void shouldRefuseNothingWhenTheOtherSideEndsSoon() throws Exception {
        Process outside = share("pipe-out", 1);
        Map<Integer, ProcessIdentity> roots = ranks(1);
        refused(roots);
        new SignalSender(table).sendAll(SignalSender.Signal.KILL, List.of(table.of((int) outside.pid())));
        assertTrue(outside.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS));
        // A pipe whose other end no process has.
        assertDoesNotThrow(() -> check().require(roots, true));
    }

    @Test
    void shouldShowNoControlCharactersOfANameThatAJobHasChosen() throws Exception {
        Path name = directory.resolve("a\nCOMMITTED \u001b[2J");
        String rest = "sh -c 'sleep 100; true' & echo $! >pid.part; mv pid.part pid; echo 1 >turns; sleep 100; true";
        Process rank = start("sh", "-c", "exec 4>'" + name + "'; " + rest);
        assertTrue(rank.isAlive());
        String message = refused(ranks(1));
        assertContainsAll(message, "a\\012COMMITTED \\033[2J");
        assertFalse(message.contains("\n"));
    }

    // ---- state that CRIU does not write ---------------------------------------------------------------------------

    private Map<Integer, ProcessIdentity> state(String kind) throws Exception {
        Process job = start(PROGRAMS.resolve("state-job").toString(), kind, directory.toString());
        assertTrue(Polling.until(LIMIT, () -> Files.exists(directory.resolve("turns"))));
        return Map.of(0, table.find((int) job.pid()).orElseThrow());
    }

    /** A pod is dumped from outside, where its threads have other numbers. */
    @Test
    void shouldRefuseATimerOfTheFirstThreadInAPodAlone() throws Exception {
        Map<Integer, ProcessIdentity> roots = state("thread-timer");
        CriuChecks ofPods = new CriuChecks(List.of(), true, SandboxRule.PASS, false);
        SharingCheck pods = new SharingCheck(table, List.of(), ofPods, Duration.ofMillis(50), LIMIT);
        String message = assertThrows(CheckpointException.class, () -> pods.require(roots, false))
                .getMessage();
        assertTrue(message.contains("(state-job) has a POSIX timer that signals its first thread"), message);
        assertDoesNotThrow(() -> check().require(roots, true));
    }

    @ParameterizedTest
    @ValueSource(strings = {"cgroup", "net"})
    void shouldRefuseAJobInANamespaceThatItsCopyCannotHave(String kind) throws Exception {
        Path files = directory.toAbsolutePath();
        start(
                "unshare",
                "--" + kind,
                "sh",
                "-c",
                "echo $$ >" + files + "/pid; echo 1 >" + files + "/turns; sleep 100; true");
        Map<Integer, ProcessIdentity> roots = ranks(1);
        String name = kind.equals("net") ? "network" : kind;
        assertContainsAll(refused(roots), "is in another " + name + " namespace than this service");
        List<String> arguments = List.of("--manage-cgroups=full");
        CriuChecks other = new CriuChecks(arguments, false, SandboxRule.PASS, true);
        SharingCheck able = new SharingCheck(table, List.of(), other, Duration.ofMillis(50), LIMIT);
        assertDoesNotThrow(() -> able.require(roots, true));
    }

    /** CRIU leaves it out without an error, so the check is repeated while the rank is held. */
    @Test
    void shouldRefuseAMemberOfAGroupThatIsHeld() throws Exception {
        Map<Integer, ProcessIdentity> roots = state("member");
        String message = assertThrows(CheckpointException.class, () -> check().requireHeld(roots))
                .getMessage();
        assertTrue(message.contains("is a member of the multicast group 239.1.2.3"), message);
    }
}
