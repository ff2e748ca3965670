package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Two nodes with only the features of Linux 3.10 of this kernel (old-kernel.c). Every system call numbered 314 or
 * higher fails with ENOSYS there, and /proc is as recorded. Services, jobs and BLCR's stand-ins all run in this way. A
 * job's ranks are orphans, or have a living parent.
 */
@EnabledIfSystemProperty(named = "os.arch", matches = "amd64")
@Timeout(value = 150, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class OldKernelIT {
    private static final String ORPHANS = "orphans";
    private static final String CHILDREN = "children";
    /** Orphans with the default checkpoint command. */
    private static final String ATOMIC = "atomic";

    /** The first rank lives in a PID namespace of its own. */
    private static final String SECLUDED = "secluded";

    private static final JobUser USER = new JobUser(20001, 20001);
    private static final int RANKS = 2;
    private static final List<String> COMPUTATION = List.of("--size", "4m", "--passes", "400");
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Pattern WARM_UP = Pattern.compile("warm-up: .* in ([0-9.]+) s");

    private static Testbed testbed;
    private static TwoNodes nodes;
    private static Path jobFolder;
    private static Path copies;
    private static List<List<String>> undisturbed;

    private final ProcessTable table = new ProcessTable();
    private final List<Process> parents = new ArrayList<>();
    private Optional<ProcessHandle> secluded = Optional.empty();
    private String job;

    @BeforeAll
    static void startServices() throws Exception {
        testbed = Testbed.create("old-kernel");
        nodes = new TwoNodes(testbed, "");
        jobFolder = testbed.folder("job", USER);
        copies = testbed.folder("copies");
        Path gate = nodes.bin().resolve("cr_restart_gate");
        Files.writeString(gate, """
                #!/bin/bash
                if [ "$1" != --version ]; then
                    touch %1$s/restarting-$$
                    # All, or the one whose image is named in it.
                    while [ -e %1$s/hold ] && [[ "$*" == *"$(cat %1$s/hold)"* ]]; do sleep 0.05; done
                    if [ -e %1$s/fail ]; then echo 'Restart failed: Input/output error'; exit 5; fi
                fi
                exec %2$s/cr_restart "$@"
                """.formatted(jobFolder, nodes.bin()));
        Files.setPosixFilePermissions(gate, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path atomic = nodes.bin().resolve("cr_checkpoint_atomic");
        Files.writeString(
                atomic, "#!/bin/bash\nexec " + nodes.bin() + "/cr_checkpoint \"${@/--noclobber/--atomic}\"\n");
        Files.setPosixFilePermissions(atomic, PosixFilePermissions.fromString("rwxr-xr-x"));
        undisturbed = new ArrayList<>();
        for (int rank = 0; rank < RANKS; rank++) {
            List<String> words = computation("undisturbed", rank);
            assertEquals(0, Command.of(words).run(LIMIT).exitCode());
            undisturbed.add(passes("undisturbed", rank));
        }
        nodes.useOldKernel();
        startAgain();
    }

    /** Starts both services, the first time or again on what they keep. */
    private static void startAgain() throws Exception {
        nodes.startServices("services", jobs() + tool(), "unknown_users = true\n" + tool(), "");
    }

    private static String tool() {
        String blcr = nodes.blcr(nodes.bin().resolve("cr_restart_gate"));
        return blcr
                + blcr.replace("[checkpointers.blcr]", "[checkpointers.atomic]")
                        .replace("/cr_checkpoint\"", "/cr_checkpoint_atomic\"");
    }

    private static String jobs() {
        StringBuilder text = new StringBuilder();
        for (String name : List.of(ORPHANS, CHILDREN, ATOMIC, SECLUDED)) {
            List<String> ranks = Stream.of(0, 1)
                    .map(rank -> "{rank = " + rank + ", pid_file = \"" + file(name, rank, "pid") + "\"}")
                    .toList();
            text.append("""
                    [jobs.%1$s]
                    user = %2$d
                    group = %2$d
                    checkpointer = "%5$s"
                    ranks = [%3$s]
                    suspend = ["sh", "-c", "echo suspend >>%4$s/events"]
                    resume = ["sh", "-c", "echo resume >>%4$s/events"]
                    reconnect = ["sh", "-c", "echo reconnect >>%4$s/events"]
                    """.formatted(
                    name, USER.uid(), String.join(", ", ranks), jobFolder, name.equals(ATOMIC) ? ATOMIC : "blcr"));
        }
        return text.toString();
    }

    @AfterAll
    static void endServices() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static Path file(String name, int rank, String kind) {
        return jobFolder.resolve(name + "-" + rank + "." + kind);
    }

    private static List<String> computation(String name, int rank) {
        List<String> words =
                new ArrayList<>(List.of(nodes.bin().resolve("selfckpt-job").toString()));
        words.addAll(COMPUTATION);
        words.addAll(List.of("--seed", "" + (7 + rank), "--out", "" + file(name, rank, "out")));
        words.addAll(List.of("--progress", "" + file(name, rank, "progress")));
        return words;
    }

    /** The passes that a rank has made, without the PIDs. */
    private static List<String> passes(String name, int rank) throws IOException {
        Path progress = file(name, rank, "progress");
        return Files.exists(progress)
                ? Files.readAllLines(progress).stream()
                        .map(line -> line.substring(0, line.lastIndexOf(' ')))
                        .toList()
                : List.of();
    }

    @BeforeEach
    void clear() throws Exception {
        for (String name : List.of("hold", "fail", "events")) {
            Files.deleteIfExists(jobFolder.resolve(name));
        }
    }

    private void startJob(String name) throws Exception {
        job = name;
        for (int rank = 0; rank < RANKS; rank++) {
            Files.deleteIfExists(file(name, rank, "progress"));
            List<String> words = new ArrayList<>(List.of(
                    new NativePrograms(nodes.bin()).launch().toString(),
                    "--uid",
                    "" + USER.uid(),
                    "--gid",
                    "" + USER.gid(),
                    "--"));
            words.addAll(computation(name, rank));
            words.addAll(List.of("--pace", "100"));
            if (rank == 1) {
                // Several writers write its image at once, not in order.
                words.addAll(List.of("--writers", "4"));
            }
            Path pidFile = file(name, rank, "pid");
            Files.deleteIfExists(pidFile);
            if (name.equals(SECLUDED) && rank == 0) {
                seclude(pidFile, words);
            } else if (!name.equals(CHILDREN)) {
                nodes.a().startDetached(pidFile, words);
            } else {
                List<String> parent = new ArrayList<>(List.of(
                        "sh",
                        "-c",
                        "file=$1; shift; \"$@\" </dev/null >/dev/null 2>&1 & echo $! >$file.part; mv $file.part $file;"
                                + " wait",
                        "sh",
                        pidFile.toString()));
                parent.addAll(words);
                parents.add(nodes.a().command(parent).start());
            }
        }
        goesOn(0);
    }

    /** Starts a rank as the init of a PID namespace. The file gets its PID in the node's namespace. */
    private void seclude(Path pidFile, List<String> rank) throws Exception {
        List<String> words = new ArrayList<>(List.of("unshare", "--pid", "--fork"));
        words.addAll(rank);
        ProcessIdentity unshare = nodes.a().startDetached(jobFolder.resolve("unshare.pid"), words);
        ProcessHandle parent = ProcessHandle.of(unshare.pid()).orElseThrow();
        Conditions.until(
                "the rank has begun", () -> parent.children().findFirst().isPresent());
        ProcessHandle child = parent.children().findFirst().orElseThrow();
        secluded = Optional.of(child);
        // The PIDs are in this test's namespace, in the node's, and in the rank's own.
        String pids = Files.readAllLines(Path.of("/proc/" + child.pid() + "/status")).stream()
                .filter(line -> line.startsWith("NSpid:"))
                .findFirst()
                .orElseThrow();
        Files.writeString(pidFile, pids.split("\\s+", -1)[2] + "\n");
    }

    /** Waits until each rank has made two passes more than this, every one of them right. */
    private void goesOn(int passesBefore) throws Exception {
        Conditions.until("the ranks compute", () -> least() >= passesBefore + 2);
        for (int rank = 0; rank < RANKS; rank++) {
            List<String> made = passes(job, rank);
            assertEquals(undisturbed.get(rank).subList(0, made.size()), made);
        }
    }

    private int least() throws IOException {
        int least = Integer.MAX_VALUE;
        for (int rank = 0; rank < RANKS; rank++) {
            least = Math.min(least, passes(job, rank).size());
        }
        return least;
    }

    private List<ProcessIdentity> ranksIn(TestNode node) {
        return table.inNamespace(node.init().pidNamespace()).stream()
                .filter(process -> isRank(process.pid()))
                .toList();
    }

    private static boolean isRank(long pid) {
        try {
            return Files.readSymbolicLink(Path.of("/proc/" + pid + "/exe")).endsWith("selfckpt-job");
        } catch (IOException gone) {
            return false;
        }
    }

    private String parentOf(ProcessIdentity process) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/" + process.pid() + "/status"))) {
            if (line.startsWith("PPid:")) {
                String parent = line.substring("PPid:".length()).strip();
                return parent.equals("" + nodes.b().init().pid())
                        ? "init"
                        : Files.readString(Path.of("/proc/" + parent + "/comm")).strip();
            }
        }
        throw new IOException("no PPid of " + process);
    }

    private void killRanks() throws Exception {
        for (TestNode node : List.of(nodes.a(), nodes.b())) {
            Conditions.until("nothing of the job is left", () -> {
                ranksIn(node).forEach(rank -> ProcessHandle.of(rank.pid()).ifPresent(ProcessHandle::destroyForcibly));
                return ranksIn(node).isEmpty();
            });
        }
    }

    @AfterEach
    void endJob() throws Exception {
        killRanks();
        secluded.ifPresent(ProcessHandle::destroyForcibly);
        parents.forEach(Process::destroyForcibly);
    }

    private List<String> events() throws IOException {
        Path events = jobFolder.resolve("events");
        return Files.exists(events) ? Files.readAllLines(events) : List.of();
    }

    private MigrationReport migrate(Optional<Path> keep) throws Exception {
        try (ControlClient client = new ControlClient(nodes.socket())) {
            client.start(job, List.of(), keep, true);
            return client.awaitReport(LIMIT, progress -> {});
        }
    }

    private Command.CommandResult ppmr(TestNode node, String... words) throws Exception {
        return Command.of(node.command(nodes.java().with(List.of(words))).command())
                .run(LIMIT);
    }

    @ParameterizedTest
    @ValueSource(strings = {CHILDREN})
    void shouldGoOnThereWhenMovedAndAgainWhenRestartedFromTheCopy(String name) throws Exception {
        startJob(name);
        int before = least();
        MigrationReport report = migrate(Optional.of(copies));
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        // A node that starts programs slowly has a stall or two, for which a few chunks wait in staging.
        assertTrue(report.images().stagedBytes() < report.images().bytes() / 8, () -> "it was staged: " + report);
        assertTrue(report.images().bytes() > RANKS * (4L << 20));
        assertEquals(List.of("suspend", "reconnect"), events());
        assertEquals(List.of(), ranksIn(nodes.a()));
        List<ProcessIdentity> moved = ranksIn(nodes.b());
        assertEquals(RANKS, moved.size());
        for (ProcessIdentity rank : moved) {
            assertEquals(name.equals(ORPHANS) ? "init" : "cr_restart", parentOf(rank));
        }
        goesOn(before);

        assertTrue(report.copy().kept(), report.copy().reason());
        killRanks();
        int atDeath = least();
        Command.CommandResult restarted = ppmr(
                nodes.b(),
                "restart",
                report.copy().directory(),
                "--config",
                nodes.target().folder().resolve("target.toml").toString());
        assertEquals(0, restarted.exitCode(), restarted.output());
        assertEquals(RANKS, ranksIn(nodes.b()).size());
        goesOn(atDeath);
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {ORPHANS})
    void shouldGoOnThereWhenMovedAndAgainWhenRestartedFromTheCopyAsWell(String name) throws Exception {
        shouldGoOnThereWhenMovedAndAgainWhenRestartedFromTheCopy(name);
    }

    @Tag("soak")
    @Test
    void shouldStreamAllTheSameWhenTheImageHasATemporaryNameUntilItIsWhole() throws Exception {
        startJob(ATOMIC);
        int before = least();
        MigrationReport report = migrate(Optional.empty());
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        // A node that starts programs slowly has a stall or two, for which a few chunks wait in staging.
        assertTrue(report.images().stagedBytes() < report.images().bytes() / 8, () -> "it was staged: " + report);
        goesOn(before);
    }

    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {ORPHANS, CHILDREN})
    void shouldGoOnHereWhenARestartFails(String name) throws Exception {
        startJob(name);
        Files.createFile(jobFolder.resolve("fail"));
        MigrationReport report = migrate(Optional.empty());
        assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
        assertTrue(report.reason().contains("exit status 5"), report.reason());
        assertTrue(report.reason().contains("Remedy: the image ended too early"), report.reason());
        assertEquals(List.of("suspend", "resume"), events());
        assertEquals(RANKS, ranksIn(nodes.a()).size());
        assertEquals(List.of(), ranksIn(nodes.b()));
        goesOn(least());
    }

    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {ORPHANS, CHILDREN})
    void shouldGoOnHereWhenCancelled(String name) throws Exception {
        startJob(name);
        Files.createFile(jobFolder.resolve("hold"));
        try (ControlClient client = new ControlClient(nodes.socket())) {
            String id = client.start(job, List.of(), Optional.empty(), true).id();
            awaitRestarting();
            Command.CommandResult cancelled = ppmr(
                    nodes.a(),
                    "cancel",
                    id.substring(0, 8),
                    "--socket",
                    nodes.socket().toString());
            assertEquals(0, cancelled.exitCode(), cancelled.output());
            MigrationReport report = client.awaitReport(LIMIT, progress -> {});
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
        }
        assertEquals(RANKS, ranksIn(nodes.a()).size());
        goesOn(least());
    }

    private void awaitRestarting() throws Exception {
        Conditions.until("the restarts have begun", () -> {
            try (Stream<Path> files = Files.list(jobFolder)) {
                return files.anyMatch(file -> file.getFileName().toString().startsWith("restarting-"));
            }
        });
        try (Stream<Path> files = Files.list(jobFolder)) {
            for (Path file : files.toList()) {
                if (file.getFileName().toString().startsWith("restarting-")) {
                    Files.delete(file);
                }
            }
        }
    }

    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {ORPHANS, CHILDREN})
    void shouldGoOnHereAndMoveLaterWhenBothServicesAreKilled(String name) throws Exception {
        startJob(name);
        // One copy exists and is held, and the other one does not exist. If the first is an orphan, its cr_restart
        // ended.
        Files.writeString(jobFolder.resolve("hold"), "context.1");
        try (ControlClient client = new ControlClient(nodes.socket())) {
            client.start(job, List.of(), Optional.empty(), false);
            Conditions.until("one copy is held", () -> {
                List<ProcessIdentity> restored = ranksIn(nodes.b());
                return restored.size() == 1 && table.isHeld(restored.get(0));
            });
        }
        for (ServiceProcess service : List.of(nodes.source(), nodes.target())) {
            service.kill();
        }
        Files.delete(jobFolder.resolve("hold"));
        startAgain();
        goesOn(least());
        Conditions.until("no copy is left", () -> ranksIn(nodes.b()).isEmpty());
        assertEquals(RANKS, ranksIn(nodes.a()).size());
        MigrationReport report = Conditions.get(() -> migrate(Optional.empty()));
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        goesOn(least());
    }

    @Tag("soak")
    @Test
    void shouldRefuseByNameAndLetRunARankThatLivesInAnotherPidNamespace() throws Exception {
        startJob(SECLUDED);
        MigrationReport report = migrate(Optional.empty());
        assertFalse(report.moved(), report.reason());
        assertTrue(report.reason().contains("lives in another PID namespace than this service"), report.reason());
        assertTrue(report.reason().contains("it needs Linux 4.1 or newer"), report.reason());
        assertTrue(report.reason().contains("Remedy: run the job, and the service, in the"), report.reason());
        assertTrue(secluded.orElseThrow().isAlive());
        assertEquals(List.of(), ranksIn(nodes.b()));
        goesOn(least());
    }

    @Tag("soak")
    @Test
    void shouldSayOfACheckpointerWhyRanksCannotHaveNamespacesAlways() throws Exception {
        Path config = nodes.target().folder().resolve("always.toml");
        Files.writeString(
                config,
                Files.readString(nodes.target().folder().resolve("target.toml"))
                        + nodes.blcr(nodes.bin().resolve("cr_restart"))
                                .replace("[checkpointers.blcr]", "[checkpointers.always]\nnamespaces = \"always\""));
        Command.CommandResult tools = ppmr(nodes.b(), "checkpointers", "--config", config.toString());
        String said = tools.output()
                .lines()
                .filter(line -> line.contains("always"))
                .findFirst()
                .orElseThrow(() -> new AssertionError(tools.output()));
        assertTrue(said.contains("ranks cannot live in PID namespaces of their own here"), tools.output());
        assertTrue(said.contains("it needs Linux 4.1 or newer, and this node's 3.10.108 has no NSpid"), said);
        assertTrue(tools.output().contains("set namespaces to \"never\""), tools.output());
    }

    @Test
    void shouldSayWhatTheKernelLacksAndBeReadyInTime() throws Exception {
        assertTrue(
                nodes.source().log().contains("Linux 3.10.108 has no pidfd_open, "),
                nodes.source().log());
        assertTrue(
                nodes.target().log().contains("MemAvailable, ")
                        && nodes.target().log().contains(", map_files"),
                nodes.target().log());
        Command.CommandResult doctor = ppmr(
                nodes.a(),
                "doctor",
                "--config",
                nodes.source().folder().resolve("source.toml").toString());
        for (String lacked :
                List.of("pidfd_open", "close_range", "NSpid", "MemAvailable", "RssAnon", "cgroup.freeze")) {
            assertTrue(doctor.output().contains("Linux 3.10.108 has no " + lacked), doctor.output());
        }
        Command.CommandResult tools = ppmr(nodes.a(), "checkpointers");
        assertTrue(
                tools.output().contains("it needs Linux 4.1 or newer"),
                "CRIU is refused with a message that names the cause: " + tools.output());
        for (ServiceProcess service : List.of(nodes.source(), nodes.target())) {
            Matcher warmUp = WARM_UP.matcher(service.log());
            // Where both were killed before, in another test, the journal may have an open migration.
            assertTrue(warmUp.find() || service.log().contains("no warm-up: the journal has"), service.log());
            // It needs 5 s at most, and some time for the cancellation.
            assertTrue(warmUp.reset().results().allMatch(found -> Double.parseDouble(found.group(1)) < 7));
        }
    }
}
