package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.service.JavaCommand;
import io.ppmr.linux.Command;
import io.ppmr.migration.node.FileComparison;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.testbed.TwoNodes;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Jobs between services of this release and of the release before, each a process of its own. The release before is
 * built out of this tree: it has a field, a record, a key, and a version of protocol and journal less.
 */
@Tag("soak")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class OlderReleaseIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(90));
    private static final int VERSION_PLACE = 7;

    @TempDir
    private static Path built;

    private static JavaCommand older;

    @TempDir
    private Path directory;

    @BeforeAll
    static void build() throws IOException {
        older = OlderRelease.build(built);
    }

    private Path folder() throws IOException {
        return Files.createDirectory(directory.resolve("pair"));
    }

    private char journalVersion(Path folder, String role) throws IOException {
        return (char)
                Files.readAllBytes(folder.resolve(role + "-journal").resolve(MappedJournal.FILE_NAME))[VERSION_PLACE];
    }

    private static List<String> peers(Path folder, String role, String id) throws IOException {
        return Nodes.journal(folder, role).stream()
                .filter(record -> record.migrationId().equals(id))
                .filter(TransactionRecord.PeerNode.class::isInstance)
                .map(TransactionRecord.PeerNode.class::cast)
                .map(peer -> peer.protocol() + " " + peer.bootId())
                .toList();
    }

    @ParameterizedTest
    @ValueSource(strings = {KillablePair.SOURCE, KillablePair.TARGET})
    void shouldMoveAndRollBackWhenOneSideIsOfTheReleaseBefore(String role) throws Exception {
        Path folder = folder();
        String newer = role.equals(KillablePair.SOURCE) ? KillablePair.TARGET : KillablePair.SOURCE;
        try (KillablePair pair = new KillablePair(folder, Map.of(role, older))) {
            try (LedgerJob job = pair.job()) {
                String id = pair.migrate();
                pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Done.class);
                job.runsThere();
                assertEquals(List.of("9 "), peers(folder, newer, id));
                assertEquals(List.of(), peers(folder, role, id));
            }
            assertEquals('2', journalVersion(folder, role));
            assertEquals('3', journalVersion(folder, newer));
            try (LedgerJob job = pair.job()) {
                job.restarts(0, "open missing r");
                String id = pair.migrate();
                pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Done.class);
                job.runsHere();
            }
            // The service is idle: it is restarted in the new release, and both use all of it.
            pair.startIn(ServiceProcess.java(), role);
            try (LedgerJob job = pair.job()) {
                String id = pair.migrate();
                pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Done.class);
                job.runsThere();
                String all = "10 " + FileComparison.kernel();
                assertEquals(List.of(all), peers(folder, KillablePair.SOURCE, id));
                assertEquals(List.of(all), peers(folder, KillablePair.TARGET, id));
            }
            assertEquals('3', journalVersion(folder, role));
        }
    }

    /** A target has voted, and the source has not received the vote. One of both is restarted in the new release. */
    @ParameterizedTest
    @CsvSource({"source, source", "source, target", "target, target", "target, source"})
    void shouldFinishAnOpenMigrationWhenAServiceIsRestartedInTheNewRelease(String role, String restarted)
            throws Exception {
        Path folder = folder();
        try (KillablePair pair = new KillablePair(folder, Map.of(role, older));
                LedgerJob job = pair.job()) {
            String id = pair.voted(job);
            pair.startIn(ServiceProcess.java(), restarted);
            if (!restarted.equals(KillablePair.SOURCE)) {
                pair.service(KillablePair.SOURCE).thaw();
            }
            pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Done.class);
            // A lost connection may come before the vote, and then the migration is rolled back.
            job.isMoved();
            assertEquals('3', journalVersion(folder, restarted));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {KillablePair.SOURCE, KillablePair.TARGET})
    void shouldFinishACommitWhenAServiceIsRestartedInTheNewReleaseAfterTheDecision(String role) throws Exception {
        Path folder = folder();
        try (KillablePair pair = new KillablePair(folder, Map.of(role, older));
                LedgerJob job = pair.job()) {
            String id = pair.migrate();
            pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.CommitDecided.class);
            pair.startIn(ServiceProcess.java(), role);
            pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Done.class);
            job.runsThere();
            assertEquals('3', journalVersion(folder, role));
        }
    }

    @Test
    void shouldRefuseTheJournalByNameWhenTheReleaseBeforeIsStartedAgain() throws Exception {
        Path folder = folder();
        try (KillablePair pair = new KillablePair(folder, Map.of())) {
            Exception e = assertThrows(Exception.class, () -> pair.startIn(older, KillablePair.TARGET));
            String log = pair.service(KillablePair.TARGET).logEnd(20);
            assertTrue(log.contains("is of version '3', and this release reads versions 1 to 2"), log + e);
            assertEquals('3', journalVersion(folder, KillablePair.TARGET));
        }
    }

    /** The files of all other tests are those of the release before: they have no new key. */
    @Test
    void shouldRefuseANewKeyByNameWhenTheReleaseBeforeReadsTheFile() throws Exception {
        Assumptions.assumeTrue(
                Files.exists(Path.of(System.getProperty("ppmr.home"), "ppmr-tracing")), "needs the part with the key");
        Path folder = folder();
        try (KillablePair pair = new KillablePair(folder, "[tracing]\notlp = \"http://127.0.0.1:9\"\n")) {
            Exception e = assertThrows(Exception.class, () -> pair.startIn(older, KillablePair.TARGET));
            String log = pair.service(KillablePair.TARGET).logEnd(20);
            assertTrue(log.contains("tracing: there is no such key"), log + e);
        }
    }

    // ---- CRIU ------------------------------------------------------------------------------------------------------

    private ServiceProcess service(JavaCommand release, String role, int port, String pages) throws Exception {
        String common = """
                key_file = "%1$s/key"
                warm_up_migrations = 0
                control_socket = "%1$s/%2$s.sock"
                """.formatted(directory, role);
        String own = role.equals(KillablePair.TARGET) ? """
                listen = "127.0.0.1:%d"
                allow_root_jobs = true
                """.formatted(port) : """
                [target]
                address = "127.0.0.1:%d"
                [jobs.job]
                user = 0
                checkpointer = "criu"
                ranks = [{rank = 0, pid_file = "%s/pid"}]
                """.formatted(port, directory);
        String tool = TwoNodes.criu(pages) + (role.equals(KillablePair.TARGET) ? "trusted_users = [0]\n" : "");
        ServiceProcess service = ServiceProcess.begin(null, release, role, directory, List.of(role), common, own, tool);
        try {
            service.awaitReady(LIMIT);
            return service;
        } catch (Exception | AssertionError e) {
            service.close();
            throw e;
        }
    }

    @ParameterizedTest
    @CsvSource({"source, streamed", "target, streamed", "source, images", "target, images"})
    void shouldMoveARealJobWithEveryByteWhenOneSideIsOfTheReleaseBefore(String role, String pages) throws Exception {
        String words =
                System.getProperty("ppmr.demo.dir") + "/plain-job --size 33554432 --passes 20 --seed 7 --threads 2";
        Command.CommandResult expected =
                Command.of(List.of((words + " --expect").split(" "))).run(LIMIT);
        KeyFile.create(directory.resolve("key"));
        int port = Nodes.unusedAddress().getPort();
        JavaCommand newer = ServiceProcess.java();
        try (ServiceProcess target =
                        service(role.equals(KillablePair.TARGET) ? older : newer, KillablePair.TARGET, port, pages);
                ServiceProcess source =
                        service(role.equals(KillablePair.SOURCE) ? older : newer, KillablePair.SOURCE, port, pages);
                CriuJob job = CriuJob.start(
                        directory, "setsid " + words + " --out out --progress turns --pace 100 --until cue")) {
            Conditions.until(
                    LIMIT,
                    "the job computes",
                    () -> Files.exists(job.file("turns"))
                            && !Files.readAllLines(job.file("turns")).isEmpty());
            Files.writeString(directory.resolve("pid"), job.pid() + "\n");
            try (ControlClient client = new ControlClient(directory.resolve("source.sock"))) {
                client.start("job", true);
                MigrationReport report = client.awaitReport(LIMIT, progress -> {});
                String logs = report.reason() + "\n" + source.logEnd(20) + "\n" + target.logEnd(20);
                assertEquals(Outcome.COMMITTED, report.outcome(), logs);
            }
            Files.createFile(job.file("cue"));
            Conditions.until(LIMIT, "the job ends", () -> Files.exists(job.file("out")));
            assertEquals(
                    expected.output().strip(), Files.readString(job.file("out")).strip());
        }
    }
}
