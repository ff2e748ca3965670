package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A job's user lives in namespaces of its own, with programs of its own at the paths of root's. ppmr does not run them
 * as root. Each rank is an ordinary user's process. The user's program prints the user that it was started as.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ForeignNamespaceIT {
    private static final JobUser USER = new JobUser(20001, 20001);
    private static final List<String> AS_USER =
            List.of("setpriv", "--reuid", "20001", "--regid", "20001", "--clear-groups");
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(30));
    private static final Path BUILT = Path.of(System.getProperty("ppmr.native.dir"));

    /** Becomes the job, which notes that it continues, and ends with its folder. */
    private static final String TURNS = "exec ./job";

    @TempDir
    private Path directory;

    private final List<Process> started = new ArrayList<>();
    private NativePrograms programs;
    private Path shared;

    @BeforeEach
    void makeFolders() throws IOException {
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path bin = Files.createDirectory(directory.resolve("bin"));
        try (DirectoryStream<Path> files = Files.newDirectoryStream(BUILT)) {
            for (Path file : files) {
                Files.copy(file, bin.resolve(file.getFileName()), StandardCopyOption.COPY_ATTRIBUTES);
            }
        }
        programs = new NativePrograms(bin);
        shared = Files.createDirectory(directory.resolve("shared"));
        Files.setPosixFilePermissions(shared, PosixFilePermissions.fromString("rwxrwxrwx"));
        program("job", """
                #!/usr/bin/perl
                open(T, ">>", "turns") or die;
                select((select(T), $| = 1)[0]);
                while (-e "turns") { print T "x"; select(undef, undef, undef, 0.02) }
                """);
        program("evil", """
                #!/bin/sh
                grep -E '^(Uid|CapEff)' /proc/self/status >>%s/ran
                exit 1
                """.formatted(shared));
    }

    private void program(String name, String text) throws IOException {
        Path program = Files.writeString(shared.resolve(name), text);
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    @AfterEach
    void endAll() throws Exception {
        for (Process process : started) {
            List<ProcessHandle> tree = process.descendants().toList();
            process.destroyForcibly();
            tree.forEach(ProcessHandle::destroyForcibly);
            process.waitFor(10, TimeUnit.SECONDS);
        }
    }

    /** Starts words in the shared folder, the last of which is a shell's script. Returns the continuing process. */
    private int start(List<String> words, String script) throws Exception {
        List<String> command = new ArrayList<>(words);
        if (!words.contains("-c") || words.contains("setsid")) {
            command.addAll(List.of("sh", "-c"));
        }
        command.add(script);
        Process process = new ProcessBuilder(command)
                .directory(shared.toFile())
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(shared.resolve("said").toFile())
                .start();
        started.add(process);
        requireTurns();
        // unshare(1) with --fork has one child, the rest becomes what it starts.
        boolean forks = words.contains("-Urmpf") || words.contains("-mpf");
        return (int) (forks ? process.children().findFirst().orElseThrow().pid() : process.pid());
    }

    private static List<String> asUser(String... more) {
        List<String> words = new ArrayList<>(AS_USER);
        words.addAll(List.of(more));
        return words;
    }

    private long turns() throws IOException {
        Path turns = shared.resolve("turns");
        return Files.exists(turns) ? Files.size(turns) : 0;
    }

    private void requireTurns() throws Exception {
        long before = turns();
        Conditions.until(LIMIT, "the job continues", () -> turns() > before + 1);
    }

    private Checkpointer checkpointer(String kind) throws IOException {
        return switch (kind) {
            case "criu" ->
                CheckpointerSettings.Criu.of(
                                List.of(System.getenv("PPMR_CRIU").strip().split("\n")))
                        .create("criu", programs);
            case "blcr" -> {
                Path tools = BUILT.resolveSibling("native-test");
                yield new CheckpointerSettings.Blcr(
                                tools.resolve("cr_checkpoint").toString(),
                                tools.resolve("cr_restart").toString(),
                                false,
                                NamespacePolicy.AUTO)
                        .create("blcr", programs);
            }
            default -> command(kind.equals("root") ? RunAs.ROOT : RunAs.JOB_USER);
        };
    }

    /** Two scripts: the first writes an image and stops the process, the second starts a copy and stops it. */
    private Checkpointer command(RunAs runAs) throws IOException {
        String prefix = runAs == RunAs.ROOT ? "unshare --mount " + String.join(" ", AS_USER) : "";
        String copy = "cd %s; setsid %s sh -c 'kill -STOP $$; %s' &".formatted(shared, prefix, TURNS);
        return new CheckpointerSettings.CommandTool(
                        List.of(
                                script("checkpoint", "cat /etc/hostname >\"$2\" && kill -STOP \"$1\""),
                                "{pid}",
                                "{file}"),
                        List.of(
                                script("restart", "cat \"$1\" >/dev/null\n" + copy + "\necho $! >\"$2\""),
                                "{file}",
                                "{pidfile}"),
                        ReadingMode.STREAMED,
                        "image.{rank}",
                        List.of("image.{rank}"),
                        List.of(),
                        Map.of(),
                        runAs,
                        false,
                        false,
                        NamespacePolicy.NEVER)
                .create(runAs == RunAs.ROOT ? "criu" : "command", programs);
    }

    private String script(String name, String text) throws IOException {
        Path script = Files.writeString(directory.resolve(name), "#!/bin/sh\n" + text + "\n");
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rwxr-xr-x"));
        return script.toString();
    }

    private MigrationReport migrate(String kind, int pid) throws Exception {
        Checkpointer checkpointer = checkpointer(kind);
        try (ServicePair pair = new ServicePair(
                directory,
                ServicePair.Options.with(checkpointer).staging(64 << 20).trusts(USER))) {
            return pair.source()
                    .migrate(new Job("job", USER, checkpointer, List.of(new Job.RankProcess(0, pid))), progress -> {});
        }
    }

    private void requireRefused(MigrationReport report, String... words) throws Exception {
        assertFalse(Files.exists(shared.resolve("ran")), () -> "the user's program ran: " + said("ran"));
        assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
        for (String word : words) {
            assertTrue(report.reason().contains(word), "'" + report.reason() + "' does not say '" + word + "'");
        }
        assertTrue(report.reason().contains("rank 0: PID "), report.reason());
        assertTrue(report.reason().contains("Remedy: "), report.reason());
        requireTurns();
    }

    private String said(String name) {
        try {
            return Files.readString(shared.resolve(name));
        } catch (IOException e) {
            return e.toString();
        }
    }

    /** Binds the user's program over the words that root's chain of programs has at its start. */
    private String overRootsPrograms(String then) {
        return "mount --bind evil " + programs.launch() + " && mount --bind evil /usr/bin/nsenter"
                + " && mount --bind evil " + programs.pages() + " && " + then;
    }

    @ParameterizedTest
    @ValueSource(strings = {"criu", "blcr", "command", "root"})
    void shouldRefuseBeforeThePauseAndRunNothingOfTheUsersWhenARankHasAUserNamespace(String kind) throws Exception {
        int pid = start(asUser("unshare", "-Urmpf", "setsid"), overRootsPrograms(TURNS));
        requireRefused(migrate(kind, pid), "rank 0: PID " + pid + " lives in a user namespace of its own");
    }

    @ParameterizedTest
    @ValueSource(strings = {"criu", "blcr", "command"})
    void shouldRefuseBeforeThePauseWhenAChildOfARankHasAUserNamespace(String kind) throws Exception {
        int pid = start(asUser("setsid"), "unshare -Urm sleep 60 & " + TURNS);
        Conditions.until(LIMIT, "the child has a user namespace", () -> !namespaces(pid, "user")
                .equals(namespaces(
                        ProcessHandle.of(pid)
                                .orElseThrow()
                                .children()
                                .findFirst()
                                .map(ProcessHandle::pid)
                                .orElse((long) pid),
                        "user")));
        requireRefused(migrate(kind, pid), "lives in a user namespace of its own");
    }

    private static Path namespaces(long pid, String kind) throws IOException {
        return Files.readSymbolicLink(Path.of("/proc/" + pid + "/ns/" + kind));
    }

    /** A container of root's, whose init has the name of ours. It is neither entered nor ended. */
    @ParameterizedTest
    @ValueSource(strings = {"criu", "blcr", "command"})
    void shouldRefuseBeforeThePauseAndEnterNothingWhenNoRestartHasMadeTheNamespace(String kind) throws Exception {
        Path init = Files.copy(Path.of("/bin/sh").toRealPath(), directory.resolve("ppmr-rank-init"));
        Files.setPosixFilePermissions(init, PosixFilePermissions.fromString("rwxr-xr-x"));
        String rank = String.join(" ", asUser("setsid")) + " sh -c '" + TURNS + "'";
        start(
                List.of("unshare", "-mpf", "--mount-proc", "--kill-child", init.toString(), "-c"),
                overRootsPrograms(rank + " & wait"));
        int pid = (int) ProcessHandle.allProcesses()
                .filter(process -> isRank(process.pid()))
                .findFirst()
                .orElseThrow()
                .pid();
        requireRefused(
                migrate(kind, pid), "rank 0: PID " + pid + " lives in a PID namespace that no restart of ppmr has");
    }

    private boolean isRank(long pid) {
        try {
            return Files.readSymbolicLink(Path.of("/proc/" + pid + "/cwd")).equals(shared)
                    && Files.getAttribute(Path.of("/proc/" + pid), "unix:uid").equals(USER.uid())
                    && Files.readString(Path.of("/proc/" + pid + "/cmdline")).startsWith("/usr/bin/perl\0");
        } catch (IOException gone) {
            return false;
        }
    }

    @Test
    void shouldRefuseBeforeThePauseByCriuWhenARankHasMountsOfItsOwn() throws Exception {
        int pid = start(inMountsOfItsOwn(), TURNS);
        requireRefused(migrate("criu", pid), "rank 0: PID " + pid + " lives in a mount namespace of its own");
    }

    /** A command enters nothing then, so the replacements of root's programs there are not run. */
    @Test
    void shouldMoveARankThatHasMountsOfItsOwnByACommandOfRootsAndRunNothingInThere() throws Exception {
        int pid = start(inMountsOfItsOwn(), TURNS);
        MigrationReport report = migrate("root", pid);
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        assertFalse(Files.exists(shared.resolve("ran")), () -> "the user's program ran: " + said("ran"));
        requireTurns();
    }

    /** The user's restart makes no mount namespace, so the copy is compared and ended, as ever. */
    @Test
    void shouldRunNothingInTheMountsOfARankWhenACommandOfTheUsersRestartsItElsewhere() throws Exception {
        int pid = start(inMountsOfItsOwn(), TURNS);
        MigrationReport report = migrate("command", pid);
        assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
        assertTrue(report.reason().contains("it lives in the node's own namespaces [mnt]"), report.reason());
        assertFalse(Files.exists(shared.resolve("ran")), () -> "the user's program ran: " + said("ran"));
        requireTurns();
    }

    private List<String> inMountsOfItsOwn() {
        List<String> words = new ArrayList<>(List.of(
                "unshare", "--mount", "--propagation", "private", "sh", "-c", overRootsPrograms("exec \"$@\""), "sh"));
        words.addAll(asUser("setsid"));
        return words;
    }

    /** CRIU dumps such a job, but gives its copy no cgroup namespace. */
    @Test
    void shouldRefuseAJobInACgroupNamespaceOfItsOwn() throws Exception {
        List<String> words = new ArrayList<>(List.of("unshare", "--cgroup"));
        words.addAll(asUser("setsid"));
        MigrationReport report = migrate("criu", start(words, TURNS));
        assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
        assertTrue(
                report.reason().contains(" (job) is in another cgroup namespace than this service"), report.reason());
        requireTurns();
    }

    /** A copy has such a namespace as well. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"--uts", "--ipc", "--time"})
    void shouldMoveAJobInANamespaceOfItsOwn(String kind) throws Exception {
        List<String> words = new ArrayList<>(List.of("unshare", kind));
        words.addAll(asUser("setsid"));
        MigrationReport report = migrate("criu", start(words, TURNS));
        assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        requireTurns();
    }
}
