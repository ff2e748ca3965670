package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.linux.ProcessIdentity;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests that root's programs enter only namespaces that root has made for a rank, and only in their original state. */
@Timeout(60)
class RankNamespaceIT {
    private static final Duration SOON = Duration.ofSeconds(10L * Integer.getInteger("ppmr.patience", 1));
    private static final int NOT_STARTED = 125;

    private JobFixture fixture;
    private Path ran;
    private Path evil;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        ran = fixture.userDirectory("marks").resolve("ran");
        evil = Files.writeString(fixture.base.resolve("evil"), "#!/bin/sh\nid -u >>" + ran + "\n");
        Files.setPosixFilePermissions(evil, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    @AfterEach
    void tearDown() throws Exception {
        if (fixture != null) {
            fixture.close();
        }
    }

    private static Command.CommandResult run(List<String> words) throws CheckpointException {
        return CommandStarter.call(words, SOON);
    }

    private static String output(String... words) throws CheckpointException {
        Command.CommandResult result = run(List.of(words));
        assertEquals(0, result.exitCode(), result.describe());
        return result.output();
    }

    private RankNamespace made() throws CheckpointException {
        String pid = output(fixture.programs.rankInit().toString(), "--grace", "30");
        return new RankNamespace(fixture.table.of(Integer.parseInt(pid)));
    }

    private Command.CommandResult inside(RankNamespace namespace, String... words) throws CheckpointException {
        List<String> launch = List.of(fixture.programs.launch().toString(), "--");
        List<String> command = namespace.enter(launch, fixture.base, List.of());
        command.addAll(List.of(words));
        return run(command);
    }

    /** Starts a process of the job's user inside, and returns it from this namespace's view. */
    private ProcessIdentity member(RankNamespace namespace, String... words) throws CheckpointException {
        List<String> launch = List.of(
                fixture.programs.launch().toString(),
                "--uid",
                "" + fixture.user.uid(),
                "--gid",
                "" + fixture.user.gid(),
                "--");
        List<String> command = namespace.enter(launch, fixture.base, List.of());
        command.addAll(List.of("sh", "-c", "\"$@\" </dev/null >/dev/null 2>&1 &", "sh"));
        command.addAll(List.of(words));
        assertEquals(0, run(command).exitCode());
        List<ProcessIdentity> members = new ArrayList<>();
        assertTrue(Polling.until(SOON, () -> {
            members.clear();
            members.addAll(namespace.members(fixture.table.snapshot()));
            return members.size() == 1
                    && fixture.table
                            .name(members.get(0))
                            .equals(Optional.of(Path.of(words[words.length - 2])
                                    .getFileName()
                                    .toString()));
        }));
        return members.get(0);
    }

    private Path record(RankNamespace namespace) {
        return NamespaceRecord.FOLDER.resolve(Long.toString(namespace.init().pidNamespace()));
    }

    private Optional<RankNamespace> around(ProcessIdentity process) {
        return RankNamespace.around(fixture.table, fixture.table.snapshot(), process);
    }

    private void requireNotEntered(RankNamespace namespace, String why) throws CheckpointException {
        Command.CommandResult result = inside(namespace, "sh", "-c", "echo entered");
        assertEquals(NOT_STARTED, result.exitCode(), result.describe());
        assertTrue(result.output().contains(why), result.output());
    }

    // ---- the owners of the namespaces
    // --------------------------------------------------------------------------------

    @Test
    void shouldEndAsTheCommandEndsWhenItIsEntered() throws Exception {
        RankNamespace namespace = made();
        // Without a member, the init may end after any of the commands.
        member(namespace, "sleep", "60");
        assertEquals(
                "in " + fixture.base,
                inside(namespace, "sh", "-c", "echo in $PWD").output());
        assertEquals(7, inside(namespace, "sh", "-c", "exit 7").exitCode());
        assertEquals(128 + 9, inside(namespace, "sh", "-c", "kill -KILL $$").exitCode());
        assertEquals(
                output("readlink", "/proc/" + namespace.init().pid() + "/ns/mnt"),
                inside(namespace, "readlink", "/proc/1/ns/mnt").output());
    }

    @Test
    void shouldKnowItByItsRecordAsLongAsThatIsThere() throws Exception {
        RankNamespace namespace = made();
        ProcessIdentity member = member(namespace, "sleep", "60");
        assertEquals(Optional.of(namespace), around(member));
        assertEquals(
                Optional.of(namespace),
                RankPlace.of(0, List.of(member), fixture.table.snapshot()).moved());
        Files.delete(record(namespace));
        assertEquals(Optional.empty(), around(member));
        requireNotEntered(namespace, "it has no record in /run/ppmr/namespaces");
        String refused = assertThrows(
                        CheckpointException.class, () -> RankPlace.of(0, List.of(member), fixture.table.snapshot()))
                .getMessage();
        assertTrue(refused.contains("rank 0: PID " + member.pid()) && refused.contains("Remedy: "), refused);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 4, 5})
    void shouldNotBelieveARecordWhenOneOfItsWordsIsOfAnother(int word) throws Exception {
        RankNamespace namespace = made();
        ProcessIdentity member = member(namespace, "sleep", "60");
        String[] words = Files.readString(record(namespace)).strip().split(" ");
        words[word] = words[word].substring(0, words[word].length() - 1) + (words[word].endsWith("1") ? "2" : "1");
        Files.writeString(record(namespace), String.join(" ", words) + "\n");
        assertEquals(Optional.empty(), around(member));
        requireNotEntered(namespace, "its record in /run/ppmr/namespaces belongs to another process");
    }

    @Test
    void shouldTakeNoNameForAProofWhenRootHasMadeAContainer() throws Exception {
        Path shell = Files.copy(Path.of("/bin/sh").toRealPath(), fixture.base.resolve("ppmr-rank-init"));
        Files.setPosixFilePermissions(shell, PosixFilePermissions.fromString("rwxr-xr-x"));
        Process container = new ProcessBuilder(
                        "unshare",
                        "--mount",
                        "--pid",
                        "--fork",
                        "--kill-child",
                        "--mount-proc",
                        shell.toString(),
                        "-c",
                        "sleep 60; true")
                .start();
        try {
            assertTrue(
                    Polling.until(SOON, () -> container.toHandle().descendants().count() == 2));
            ProcessIdentity init = fixture.table.of((int)
                    container.toHandle().children().findFirst().orElseThrow().pid());
            assertEquals(Optional.of("ppmr-rank-init"), fixture.table.name(init));
            assertEquals(Optional.empty(), around(init));
            requireNotEntered(new RankNamespace(init), "it has no record");
        } finally {
            container.destroyForcibly();
        }
    }

    @Test
    void shouldLetNoUserWriteOrRemoveARecord() throws Exception {
        RankNamespace namespace = made();
        Path record = record(namespace);
        for (String attack : List.of(
                "echo >>" + record,
                "rm -f " + record,
                "mv " + record + " " + record + ".old",
                "echo >" + record + ".new",
                "ln -s /etc/hostname " + record + ".link",
                "mv /run/ppmr/namespaces /run/ppmr/old")) {
            assertThrows(AssertionError.class, () -> fixture.asUser("sh", "-c", attack), attack);
        }
        assertEquals(0, inside(namespace, "true").exitCode());
    }

    @Test
    void shouldRemoveRecordsOfInitsThatHaveEndedAndNoOthersWhenAnotherIsMade() throws Exception {
        RankNamespace ended = made();
        RankNamespace lives = made();
        ended.end(fixture.table, fixture.signals, SOON);
        RankNamespace next = made();
        assertTrue(Files.exists(record(lives)), "the other one lives");
        if (next.init().pidNamespace() != ended.init().pidNamespace()) {
            assertFalse(Files.exists(record(ended)), "its init has ended");
        }
        assertEquals(0, inside(next, "true").exitCode());
    }

    /** Such a process is root in its own user namespace, and makes mounts there. */
    @Test
    void shouldRefuseAMovedRankByNameWhenOneOfItsProcessesHasAUserNamespaceOfItsOwn() throws Exception {
        RankNamespace namespace = made();
        ProcessIdentity member = member(namespace, "unshare", "-Urm", "sleep", "60");
        Polling.until(SOON, () -> NamespaceRecord.whyNotOurs(fixture.table, member)
                .orElse("")
                .contains("user namespace"));
        String refused = assertThrows(
                        CheckpointException.class, () -> RankPlace.of(3, List.of(member), fixture.table.snapshot()))
                .getMessage();
        assertTrue(refused.contains("rank 3: PID " + member.pid() + " lives in a user namespace of its own"), refused);
    }

    // ---- the files inside
    // --------------------------------------------------------------------------------------------

    private void mount(RankNamespace namespace, String... words) throws CheckpointException {
        List<String> all = new ArrayList<>(
                List.of("nsenter", "--target", "" + namespace.init().pid(), "--mount", "--", "mount"));
        all.addAll(List.of(words));
        assertEquals(0, run(all).exitCode());
    }

    @ParameterizedTest
    @ValueSource(strings = {"tool", "interpreter", "library folder", "named folder", "named file"})
    void shouldStartNothingAndNameThePathWhenAnotherFileLiesInThePlaceOfOneOfRoots(String kind) throws Exception {
        RankNamespace namespace = made();
        Path interpreter = Files.copy(Path.of("/bin/sh").toRealPath(), fixture.base.resolve("own-sh"));
        Files.setPosixFilePermissions(interpreter, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path tool = Files.writeString(fixture.base.resolve("tool"), "#!" + interpreter + "\necho tool\n");
        Files.setPosixFilePermissions(tool, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path folder = Files.createDirectory(fixture.base.resolve("libraries"));
        Path library = Files.writeString(fixture.base.resolve("library.so"), "");
        List<String> words = namespace.enter(
                List.of(fixture.programs.launch().toString(), "--"),
                fixture.base,
                List.of(folder + ":/none", library.toString()));
        words.add(tool.toString());
        Command.CommandResult before = run(words);
        assertEquals("tool", before.output(), before.describe());
        Path covered =
                switch (kind) {
                    case "tool" -> tool;
                    case "interpreter" -> interpreter;
                    case "library folder" -> Path.of("/usr/local/lib");
                    case "named folder" -> folder;
                    default -> library;
                };
        if (Files.isDirectory(covered)) {
            mount(namespace, "-t", "tmpfs", "ppmr-test", covered.toString());
        } else {
            mount(namespace, "--bind", evil.toString(), covered.toString());
        }
        Command.CommandResult after = run(words);
        assertEquals(NOT_STARTED, after.exitCode(), after.describe());
        assertTrue(after.output().contains("ppmr-launch: " + covered + " is another file"), after.output());
        assertTrue(after.output().contains("Remedy: "), after.output());
        assertFalse(Files.exists(ran), "what lies there ran");
    }

    @Test
    void shouldFindWhatWordsOfACommandNameByPath() {
        assertEquals(
                List.of(Path.of("/bin/sh"), Path.of("/usr"), Path.of("/etc")),
                List.copyOf(ToolKit.filesNamedIn(List.of("/bin/sh", "--path", "/usr:/none:/etc", "no-such-program"))));
        assertNotEquals(List.of(), List.copyOf(ToolKit.filesNamedIn(List.of("env"))));
    }
}
