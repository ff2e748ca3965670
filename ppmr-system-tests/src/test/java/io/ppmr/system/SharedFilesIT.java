package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Jobs of an ordinary user with files on a filesystem that both nodes see. It delays writes as clients of network
 * filesystems do ({@code shared-fs}). Other jobs change their files while they are moved.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SharedFilesIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path FILESYSTEM = HOME.resolve("ppmr-system-tests/target/native-test/shared-fs");
    private static final Path JOB = HOME.resolve("ppmr-system-tests/src/test/perl/file-job.pl");

    private JobNodes nodes;
    private Path net;

    @BeforeEach
    void start() throws Exception {
        JobNodes.assumePossible();
        nodes = new JobNodes("shared-files");
        Files.createDirectory(nodes.folder().resolve("store"));
        Files.setPosixFilePermissions(nodes.folder().resolve("store"), PosixFilePermissions.fromString("rwxrwxrwx"));
        net = Files.createDirectory(nodes.folder().resolve("net"));
        for (TestNode node : List.of(nodes.a(), nodes.b())) {
            List<String> words = new ArrayList<>(List.of(
                    FILESYSTEM.toString(), nodes.folder().resolve("store").toString(), net.toString(), control(node)));
            if (node == nodes.a()) {
                words.add("keep");
            }
            node.startDetached(nodes.folder().resolve(node.name() + ".fs"), words);
            Conditions.until(LIMIT, "it is mounted", () -> !nodes.shell(node, "mountpoint -q " + net + " || echo no")
                    .contains("no"));
        }
        nodes.start();
    }

    @AfterEach
    void stop() throws IOException {
        if (nodes != null) {
            for (TestNode node : List.of(nodes.a(), nodes.b())) {
                Files.deleteIfExists(Path.of(control(node) + ".hang"));
            }
            nodes.close();
        }
    }

    private String control(TestNode node) {
        return nodes.folder().resolve(node.name()).toString();
    }

    private void tell(TestNode node, String what) throws IOException {
        Files.createFile(Path.of(control(node) + "." + what));
    }

    private JobNodes.Running job(String kind, Path path) throws Exception {
        Path folder = nodes.folderOfJob();
        return nodes.run(folder, List.of("perl", JOB.toString(), folder.toString(), kind, path.toString()));
    }

    /** Its program is executed, and mapped, out of the shared folder. */
    private JobNodes.Running programOfServer() throws Exception {
        Path program = nodes.folder().resolve("store/program");
        Files.copy(JobNodes.program("feature-job"), program, StandardCopyOption.COPY_ATTRIBUTES);
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path folder = nodes.folderOfJob();
        return nodes.run(
                folder,
                List.of(net.resolve("program").toString(), folder.toString(), TestNode.DISK.toString(), "1", "plain"));
    }

    private void requireRolledBack(JobNodes.Running job, String... words) throws Exception {
        MigrationReport report = nodes.migrate("one");
        assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
        for (String word : words) {
            assertTrue(report.reason().contains(word), "'" + report.reason() + "' does not say '" + word + "'");
        }
        job.requireTurns();
    }

    /** The rest is sent to the server when the job is stopped, before a copy opens the file there. */
    @ParameterizedTest
    @ValueSource(strings = {"append"})
    void shouldLoseNoLineWhenANodeStillKeepsWhatTheJobHasWritten(String kind) throws Exception {
        try (JobNodes.Running job = job(kind, net.resolve("out"))) {
            MigrationReport report = nodes.migrate("one");
            assertEquals(Outcome.COMMITTED, report.outcome(), () -> report.reason());
            job.requireTurns();
        }
        nodes.shell(nodes.b(), "sync");
        List<String> lines = Files.readAllLines(nodes.folder().resolve("store/out"));
        assertEquals(
                IntStream.rangeClosed(1, lines.size())
                        .mapToObj(Integer::toString)
                        .toList(),
                lines);
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"write"})
    void shouldLoseNoLineWhenANodeStillKeepsWhatTheJobHasWrittenAsWell(String kind) throws Exception {
        shouldLoseNoLineWhenANodeStillKeepsWhatTheJobHasWritten(kind);
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhenWhatTheJobHasWrittenDoesNotArriveAtTheServer() throws Exception {
        try (JobNodes.Running job = job("append", net.resolve("out"))) {
            tell(nodes.a(), "lose");
            job.requireTurns();
            requireRolledBack(job, "net/out", "do not arrive at the target");
        }
    }

    /** A server that never answers again, as one whose node failed. */
    @Tag("soak")
    @ParameterizedTest
    @CsvSource({
        "hold, shared-files-a",
        "folder, shared-files-a",
        "program, shared-files-a",
        "hold, shared-files-b",
        "folder, shared-files-b",
        "program, shared-files-b"
    })
    void shouldRefuseByNameWhenAServerHangs(String kind, String where) throws Exception {
        Files.writeString(nodes.folder().resolve("store/file"), "one");
        TestNode node = where.equals(nodes.a().name()) ? nodes.a() : nodes.b();
        try (JobNodes.Running job = kind.equals("program")
                ? programOfServer()
                : job(kind, kind.equals("folder") ? net : net.resolve("file"))) {
            tell(node, "hang");
            MigrationReport report = nodes.migrate("one");
            assertNotEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertEquals(0, report.times().pauseSeconds(), report.reason());
            assertTrue(report.reason().contains(net.toString()), report.reason());
            assertTrue(report.reason().contains("Remedy: "), report.reason());
            job.requireTurns();
        }
    }

    /** The target has a file of this name, length and mode, too. So only the second check finds it. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"late", "replace"})
    void shouldGoOnWhenAJobHasComeToOpenAnotherFileBeforeItWasStopped(String kind) throws Exception {
        String user = "setpriv --reuid " + JobNodes.USER + " --regid " + JobNodes.USER + " --clear-groups ";
        Path file = TestNode.DISK.resolve("file");
        String there = kind.equals("late") ? "two" : "one";
        nodes.shell(nodes.a(), user + "sh -c 'printf one >" + file + "'");
        nodes.shell(nodes.b(), user + "sh -c 'printf " + there + " >" + file + "'");
        try (JobNodes.Running job = job(kind, file)) {
            requireRolledBack(job, "the rank opened this during the migration", "has other content");
        }
    }
}
