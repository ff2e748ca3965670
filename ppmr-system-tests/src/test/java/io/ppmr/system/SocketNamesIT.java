package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A job with a Unix socket that has a name, by real CRIU. CRIU removes what has that name at the target. No other file
 * is removed there, and the original has its name after a rollback.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SocketNamesIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final JobUser USER = new JobUser(41_377, 41_377);

    /** Serves at a name, and notes its turns in a file of both nodes. */
    private static final String SERVER = """
            use Socket; use Fcntl;
            socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un($ARGV[0])) or die; listen(S, 50) or die;
            fcntl(S, F_SETFL, O_NONBLOCK);
            for (my $n = 1; ; $n++) {
                while (accept(C, S)) { close C }
                open(F, ">>", $ARGV[1]); print F "$n\\n"; close F; select(undef, undef, undef, 0.05);
            }
            """;

    private static final String CLIENT =
            "use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($ARGV[0])) or die \"$!\\n\"";

    private static Testbed testbed;
    private static TwoNodes nodes;
    /** A folder that each node has for itself. */
    private static Path local;

    private static Path jobFolder;
    /** A restore that finds this file fails after its work. */
    private static Path failing;

    /** A restore that finds this file waits after its work, and notes that. */
    private static Path waiting;

    @BeforeAll
    static void startServices() throws Exception {
        testbed = Testbed.create("socket-names");
        nodes = new TwoNodes(testbed, "");
        jobFolder = testbed.folder("job", USER);
        local = testbed.folder("local");
        failing = testbed.folder().resolve("failing");
        waiting = testbed.folder().resolve("waiting");
        for (TestNode node : List.of(nodes.a(), nodes.b())) {
            node.run(LIMIT, "mount", "-t", "tmpfs", "-o", "mode=1777", "none", local.toString());
        }
        Path criu = testbed.folder().resolve("criu");
        Files.writeString(criu, """
                #!/bin/sh
                %s "$@" || exit
                case "$*" in *restore*)
                    [ ! -e %s ] || exit 1
                    while [ -e %s ]; do touch %s.now; sleep 0.1; done;;
                esac
                """.formatted(
                        String.join(" ", CheckpointerConfig.criu(System.getenv())), failing, waiting, waiting));
        Files.setPosixFilePermissions(criu, PosixFilePermissions.fromString("rwxr-xr-x"));
        nodes.startServices(
                "services",
                """
                [jobs.job]
                user = %1$d
                group = %1$d
                checkpointer = "criu"
                ranks = [{rank = 0, pid_file = "%2$s/pid"}]
                """.formatted(USER.uid(), jobFolder),
                "unknown_users = true\nwarm_up_migrations = 0\n",
                """
                [checkpointers.criu]
                type = "criu"
                program = ["%s"]
                pages = "images"
                trusted_users = [%d]
                """.formatted(criu, USER.uid()));
    }

    @AfterAll
    static void end() throws Exception {
        testbed.close();
    }

    @BeforeEach
    void clean() throws Exception {
        for (Path one : List.of(
                failing,
                waiting,
                Path.of(waiting + ".now"),
                jobFolder.resolve("s"),
                jobFolder.resolve("other-pid"),
                jobFolder.resolve("other-turns"))) {
            Files.deleteIfExists(one);
        }
        for (TestNode node : List.of(nodes.a(), nodes.b())) {
            node.run(LIMIT, "rm", "-rf", local + "/s", local + "/sub");
        }
    }

    @AfterEach
    void endJobs() throws Exception {
        Files.deleteIfExists(waiting);
        for (TestNode node : List.of(nodes.a(), nodes.b())) {
            node.run(LIMIT, "sh", "-c", "pkill -KILL -u " + USER.uid() + "; true");
        }
    }

    private static List<String> asUser(String... command) {
        List<String> words = List.of(
                new NativePrograms(nodes.bin()).launch().toString(),
                "--uid",
                "" + USER.uid(),
                "--gid",
                "" + USER.gid(),
                "--");
        return Stream.concat(words.stream(), List.of(command).stream()).toList();
    }

    private static void startJob(Path name) throws Exception {
        Files.deleteIfExists(jobFolder.resolve("turns"));
        Files.deleteIfExists(jobFolder.resolve("pid"));
        String turns = jobFolder.resolve("turns").toString();
        nodes.a().startDetached(jobFolder.resolve("pid"), asUser("perl", "-e", SERVER, name.toString(), turns));
        requireTurns();
    }

    private static void requireTurns() throws Exception {
        Path turns = jobFolder.resolve("turns");
        long before = Files.exists(turns) ? Files.size(turns) : 0;
        Conditions.until(LIMIT, "the job continues", () -> Files.exists(turns) && Files.size(turns) > before + 4);
    }

    private static List<String> migration() {
        return nodes.java().with(List.of("migrate", "--socket", nodes.socket().toString(), "job"));
    }

    private static String migrate() throws IOException, InterruptedException {
        Command.CommandResult result =
                Command.of(nodes.a().command(migration()).command()).run(LIMIT);
        return result.exitCode() + " " + result.output();
    }

    /** Connects as the job's user, and requires that nothing but these names is in the folder. */
    private static void requireServed(TestNode node, Path name, String... names) throws Exception {
        node.run(LIMIT, asUser("perl", "-e", CLIENT, name.toString()).toArray(String[]::new));
        String folder = name.getParent().toString();
        assertEquals(
                String.join("\n", names),
                node.run(LIMIT, "ls", "-A", folder).strip(),
                "the names in " + folder + nodes.logEnds());
    }

    /** Each row has what the target has of that name before. */
    @ParameterizedTest
    @CsvSource({"true", "'perl -e \"use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(q(s)))\"'"})
    void shouldMoveASocketToANameThatNobodyHasThere(String there) throws Exception {
        nodes.b().run(LIMIT, asUser("sh", "-c", "cd " + local + " && " + there).toArray(String[]::new));
        startJob(local.resolve("s"));
        String said = migrate();
        assertTrue(said.startsWith("0 "), said + nodes.logEnds());
        requireTurns();
        requireServed(nodes.b(), local.resolve("s"), "s");
    }

    /** Each row has what the target has of that name, and the reason. */
    @ParameterizedTest
    @CsvSource({
        "'cd LOCAL && echo precious >s', the target has another file of that name",
        "'cd LOCAL && perl -e \"use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un(q(s)))\"',"
                + " the target has another file of that name",
    })
    void shouldRefuseBeforeThePauseWhenTheNameIsAnothersThere(String there, String why) throws Exception {
        nodes.b().run(LIMIT, "sh", "-c", there.replace("LOCAL", local.toString()));
        String before = nodes.b().run(LIMIT, "ls", "-li", local.toString());
        startJob(local.resolve("s"));
        requireRefused(why);
        assertEquals(before, nodes.b().run(LIMIT, "ls", "-li", local.toString()));
    }

    private static void requireRefused(String why) throws Exception {
        String said = migrate();
        assertTrue(said.contains(why) && said.contains("as the name of socket "), said);
        assertTrue(said.contains("the job was not stopped: rank 0: PID "), said);
        assertTrue(said.contains("\n  -> "), said);
        requireTurns();
    }

    @Tag("soak")
    @Test
    void shouldRefuseBeforeThePauseWhenAProcessHasASocketOfThatNameThere() throws Exception {
        Path turns = jobFolder.resolve("other-turns");
        nodes.b()
                .startDetached(
                        jobFolder.resolve("other-pid"),
                        asUser("perl", "-e", SERVER, local.resolve("s").toString(), turns.toString()));
        Conditions.until(LIMIT, "the other server runs", () -> Files.exists(turns));
        startJob(local.resolve("s"));
        requireRefused("a process at the target has a socket of that name");
        requireServed(nodes.b(), local.resolve("s"), "s");
    }

    @Test
    void shouldRefuseBeforeThePauseWhenTheFolderIsMissingThere() throws Exception {
        nodes.a().run(LIMIT, asUser("mkdir", local + "/sub").toArray(String[]::new));
        startJob(local.resolve("sub/s"));
        requireRefused("that folder is missing at the target");
    }

    @Tag("soak")
    @Test
    void shouldLeaveOneNameInASharedFolderWhenItCommits() throws Exception {
        startJob(jobFolder.resolve("s"));
        String said = migrate();
        assertTrue(said.startsWith("0 "), said + nodes.logEnds());
        requireTurns();
        requireServed(nodes.b(), jobFolder.resolve("s"), "pid", "s", "turns");
    }

    @Tag("soak")
    @Test
    void shouldHaveItsNameInASharedFolderWhenTheCopyIsRolledBack() throws Exception {
        startJob(jobFolder.resolve("s"));
        Files.createFile(failing);
        String said = migrate();
        assertTrue(!said.startsWith("0 "), said + nodes.logEnds());
        requireTurns();
        requireServed(nodes.a(), jobFolder.resolve("s"), "pid", "s", "turns");
        Files.delete(failing);
        String again = migrate();
        assertTrue(again.startsWith("0 "), again + nodes.logEnds());
        assertTrue(nodes.source().log().contains("a rollback gave that name back"), nodes.logEnds());
    }

    /** CRIU removes the name that a socket had, too. */
    @Test
    void shouldRefuseWhenASocketLostItsNameAndAnotherFileHasItThere() throws Exception {
        nodes.b().run(LIMIT, "sh", "-c", "echo precious >" + local + "/s");
        startJob(local.resolve("s"));
        nodes.a().run(LIMIT, "rm", local + "/s");
        requireRefused("the target has another file of that name");
        nodes.b().run(LIMIT, "rm", local + "/s");
        String said = migrate();
        assertTrue(said.startsWith("0 "), said + nodes.logEnds());
        requireTurns();
    }

    @Tag("soak")
    @Test
    void shouldHaveItsNameWhenTheSourceIsKilledAfterTheCopyTookIt() throws Exception {
        startJob(jobFolder.resolve("s"));
        Files.createFile(waiting);
        Process client = nodes.a().command(migration()).start();
        Conditions.until(LIMIT, "the copy is restored", () -> Files.exists(Path.of(waiting + ".now")));
        nodes.source().kill();
        nodes.startSourceAgain();
        Files.delete(waiting);
        requireTurns();
        requireServed(nodes.a(), jobFolder.resolve("s"), "pid", "s", "turns");
        assertTrue(client.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS));
    }
}
