package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import io.ppmr.testbed.Testbed;
import io.ppmr.testbed.TwoNodes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Jobs with files in a folder that each of two nodes has of its own, by real CRIU. A copy has the same bytes, or the
 * job is refused before it is stopped. Both nodes keep their services for all tests.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class LocalFilesIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final JobUser USER = new JobUser(41_377, 41_377);

    /** Opens its file with the given mode. Notes its turns, and the bytes that it reads, in a file of both nodes. */
    private static final String JOB = "cd \"$1\"; eval \"exec 3$2\\\"\\$3\\\"\"; n=0;"
            + " while :; do n=$((n+1)); echo $n >>\"$4\"; sleep 0.05; done";

    private static Testbed testbed;
    private static TwoNodes nodes;
    /** A folder that each node has for itself. */
    private static Path local;

    private static Path jobFolder;

    @BeforeAll
    static void startServices() throws Exception {
        testbed = Testbed.create("local-files");
        nodes = new TwoNodes(testbed, "");
        jobFolder = testbed.folder("job", USER);
        local = testbed.folder("local");
        for (TestNode node : List.of(nodes.a(), nodes.b())) {
            node.run(LIMIT, "mount", "-t", "tmpfs", "-o", "mode=1777", "none", local.toString());
        }
        String criu = TwoNodes.criu("images") + "trusted_users = [" + USER.uid() + "]\n";
        nodes.startServices(
                "services",
                """
                [files]
                equivalent = ["%1$s/maps/*"]
                [jobs.job]
                user = %2$d
                group = %2$d
                checkpointer = "criu"
                ranks = [{rank = 0, pid_file = "%3$s/pid"}]
                """.formatted(local, USER.uid(), jobFolder),
                "unknown_users = true\nwarm_up_migrations = 0\n",
                criu);
    }

    @AfterAll
    static void end() throws Exception {
        testbed.close();
    }

    private static void shell(TestNode node, String line) throws Exception {
        node.run(LIMIT, "sh", "-c", "cd " + local + " && " + line);
    }

    private static void asUser(TestNode node, String line) throws Exception {
        shell(
                node,
                "setpriv --reuid " + USER.uid() + " --regid " + USER.gid() + " --clear-groups sh -c '" + line + "'");
    }

    /** Starts the job in the first node, with a descriptor of a file. */
    private static void start(String folder, String mode, String file) throws Exception {
        Files.deleteIfExists(jobFolder.resolve("turns"));
        Files.deleteIfExists(jobFolder.resolve("pid"));
        nodes.a()
                .startDetached(
                        jobFolder.resolve("pid"),
                        List.of(
                                new NativePrograms(nodes.bin()).launch().toString(),
                                "--uid",
                                "" + USER.uid(),
                                "--gid",
                                "" + USER.gid(),
                                "--",
                                "bash",
                                "-c",
                                JOB,
                                "job",
                                local.resolve(folder).toString(),
                                mode,
                                local.resolve(file).toString(),
                                jobFolder.resolve("turns").toString()));
        requireTurns();
    }

    private static void requireTurns() throws Exception {
        Path turns = jobFolder.resolve("turns");
        long before = Files.exists(turns) ? Files.size(turns) : 0;
        Conditions.until(LIMIT, "the job continues", () -> Files.exists(turns) && Files.size(turns) > before + 4);
    }

    private static String migrate() throws IOException, InterruptedException {
        List<String> words =
                nodes.java().with(List.of("migrate", "--socket", nodes.socket().toString(), "job"));
        Command.CommandResult result =
                Command.of(nodes.a().command(words).command()).run(LIMIT);
        return result.exitCode() + " " + result.output();
    }

    private static void endJob(TestNode node) throws Exception {
        node.run(LIMIT, "sh", "-c", "pkill -KILL -u " + USER.uid() + "; true");
    }

    private static void requireRefused(String... words) throws Exception {
        String said = migrate();
        for (String word : words) {
            assertTrue(said.contains(word), "'" + said + "' does not say '" + word + "'");
        }
        assertTrue(said.contains("the job was not stopped: rank 0: PID "), said);
        assertTrue(said.contains("\n  -> "), said);
        assertFalse(said.contains("committed"), said);
        requireTurns();
        endJob(nodes.a());
    }

    @ParameterizedTest
    @CsvSource({
        "'echo one >f', 'echo one >f', <>, node: the target has another",
        "'echo one >f', 'echo two >f', <, has other content",
    })
    void shouldRefuseAJobBeforeThePauseWhenItsFileIsAnotherThere(String here, String there, String mode, String why)
            throws Exception {
        asUser(nodes.a(), here);
        asUser(nodes.b(), "rm -rf f; " + there);
        try {
            start("", mode, "f");
            requireRefused(why, local.resolve("f") + " as descriptor 3");
        } finally {
            asUser(nodes.b(), "rm -rf f");
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @CsvSource({
        "'echo one >f', 'rm -f f', <>, which is missing at the target",
        "'echo one >f', 'echo one >f', >>, node: the target has another",
        "'echo one >f', 'echo three >f', <, 'which has 4 bytes here and 6 '",
        "'echo one >f', 'echo one >f; chmod 600 f', <, 'with mode 644 here'",
        "'echo one >f', 'rm -f f; mkdir f', <, a file of another type",
    })
    void shouldRefuseAJobBeforeThePauseWhenItsFileIsAnotherThereAsWell(
            String here, String there, String mode, String why) throws Exception {
        shouldRefuseAJobBeforeThePauseWhenItsFileIsAnotherThere(here, there, mode, why);
    }

    @Tag("soak")
    @Test
    void shouldRefuseAJobBeforeThePauseWhenItsWorkingDirectoryIsMissingThere() throws Exception {
        asUser(nodes.a(), "mkdir -p rundir");
        start("rundir", "<", "../../job/turns");
        requireRefused("rundir as working directory, which is missing at the target");
    }

    /** Root could read there, and the job's user cannot. No answer contains facts that only root can read. */
    @Test
    void shouldLookAtTheTargetAsTheJobsUser() throws Exception {
        asUser(nodes.a(), "mkdir -p closed; echo one >closed/f");
        shell(nodes.b(), "mkdir -p secret; echo one >secret/f; chmod 700 secret; ln -sfn secret closed");
        start("", "<", "closed/f");
        requireRefused("which its user cannot access at the target: Permission denied");
    }

    @Tag("soak")
    @Test
    void shouldWriteNoLineOfItsOwnIntoTheLogWhenAFilesNameHasOne() throws Exception {
        asUser(nodes.a(), "echo one >\"$(printf \"f\\nCOMMITTED\\033[31m\")\"");
        start("", "<>", "f\nCOMMITTED\033[31m");
        String said = migrate();
        assertTrue(said.contains("f\\012COMMITTED\\033[31m as descriptor 3"), said);
        assertFalse(said.contains("\nCOMMITTED") || said.contains("\033"), said);
        endJob(nodes.a());
    }

    /** Files that are only read, and files of a name service with a content of their own. */
    @ParameterizedTest
    @CsvSource({
        "'echo one >g', 'echo one >g', g",
        "'mkdir -p maps; echo one >maps/g', 'mkdir -p maps; echo two >maps/g', maps/g"
    })
    void shouldMoveAJobThatOnlyReadsWhatBothNodesHave(String here, String there, String file) throws Exception {
        asUser(nodes.a(), here);
        asUser(nodes.b(), there);
        start("", "<", file);
        String said = migrate();
        assertTrue(said.startsWith("0 "), said + nodes.logEnds());
        requireTurns();
        endJob(nodes.a());
        endJob(nodes.b());
    }
}
