package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.daemon.control.ControlAccess;
import io.ppmr.daemon.control.ControlServer;
import io.ppmr.daemon.history.ReportRequest;
import io.ppmr.linux.Command;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleCurve;
import io.ppmr.migration.samples.SampleStore;
import io.ppmr.migration.samples.SampledValue;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Users make reports by a service: an owner of own jobs, and an attacker of what is another's. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class OwnerReportIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final String ASK = "my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die \"connect: $!\";"
            + " print $s \"$ARGV[1]\\n\"; print scalar <$s>";
    private static final int OWNER = 61_001;
    private static final int ATTACKER = 61_002;
    private static final String OWNERS = "aaaa1111";
    private static final String ATTACKERS = "aaaa2222";
    private static final String SECRET_JOB = OWNER + "/secret-job";

    @TempDir
    private Path directory;

    private Path folder;
    private ControlServer server;
    private MappedJournal journal;

    @BeforeAll
    static void needRoot() throws IOException {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: there are two users");
    }

    @BeforeEach
    void start() throws IOException {
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxrwxrwx"));
        folder = Files.createDirectory(directory.resolve("journal"));
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwx------"));
        journal = MappedJournal.open(folder.resolve(MappedJournal.FILE_NAME));
        migration(
                OWNERS, SECRET_JOB, "user root", "hook /root/hooks/secret failed for user alice, beside 7/others-job");
        migration(ATTACKERS, ATTACKER + "/mine", "user " + ATTACKER, "cancelled by user " + ATTACKER);
        new SampleStore(folder)
                .save(
                        OWNERS,
                        new MigrationSamples(
                                System.currentTimeMillis(),
                                List.of(0L, 10L, 20L),
                                List.of(new SampleCurve(
                                        SampledValue.WRITTEN, SampleCurve.JOB, List.of(0L, 4096L, 8192L)))));
        server = new ControlServer(
                directory.resolve("source.sock"),
                new ControlAccess(Optional.empty(), false).withJobOwners(),
                Map.of(ReportRequest.NAME, new ReportRequest(folder).request()));
    }

    @AfterEach
    void end() throws IOException {
        server.close();
        journal.close();
    }

    private void migration(String id, String job, String who, String reason) throws IOException {
        journal.appendSynced(new TransactionRecord.Requested(id, 0, who, job, "spare1:7411"));
        journal.appendSynced(new TransactionRecord.Begun(
                id, 1, List.of("spare1:7411"), List.of(new PlannedRank(0, "spare1:7411", List.of()))));
        journal.appendSynced(new TransactionRecord.StepTimed(
                id, 1, "checkpoint", 0, "", System.currentTimeMillis(), 20_000_000, 8192));
        journal.appendSynced(new TransactionRecord.RollBackDecided(id, 1, reason, false));
        journal.appendSynced(new TransactionRecord.Done(id, 1, FinalOutcome.ROLLED_BACK, reason));
    }

    private Command.CommandResult as(int uid, List<String> command) throws Exception {
        List<String> words =
                new ArrayList<>(List.of("setpriv", "--reuid", "" + uid, "--regid", "" + uid, "--clear-groups"));
        words.addAll(command);
        return Command.of(words).in(Path.of("/")).run(LIMIT);
    }

    /** A user sends a request. Returns the answer, which is one JSON object. */
    private JsonNode ask(int uid, String id) throws Exception {
        String request = new ObjectMapper()
                .createObjectNode()
                .put("request", ReportRequest.NAME)
                .put("id", id)
                .toString();
        String answer = as(
                        uid,
                        List.of(
                                "perl",
                                "-MIO::Socket::UNIX",
                                "-e",
                                ASK,
                                server.path().toString(),
                                request))
                .requireOutput();
        return new ObjectMapper().readTree(answer);
    }

    /** Returns the command of a program for users, who cannot read the class path of root. */
    private List<String> commandForUsers(String... arguments) throws IOException {
        Path copies = Files.createDirectory(directory.resolve("lib"));
        List<String> words = new ArrayList<>(ServiceProcess.java().with(List.of(arguments)));
        int at = words.indexOf("-cp") + 1;
        List<String> copied = new ArrayList<>();
        for (String entry : words.get(at).split(":", -1)) {
            for (Path from : filesOf(entry)) {
                Path to = copies.resolve(copied.size() + "-" + from.getFileName());
                try (Stream<Path> all = Files.walk(from)) {
                    for (Path one : all.toList()) {
                        Files.copy(one, to.resolve(from.relativize(one).toString()));
                    }
                }
                copied.add(to.toString());
            }
        }
        words.set(at, String.join(":", copied));
        return words;
    }

    /** Returns the archives and directories of an entry of a class path, which may name all archives of a directory. */
    private static List<Path> filesOf(String entry) throws IOException {
        if (entry.endsWith("/*")) {
            try (Stream<Path> all = Files.list(Path.of(entry).getParent())) {
                return all.filter(file -> file.toString().endsWith(".jar"))
                        .sorted()
                        .toList();
            }
        }
        return Files.exists(Path.of(entry)) ? List.of(Path.of(entry)) : List.of();
    }

    @Test
    void shouldMakeAnOwnersReportWithoutOthersNamesAndPathsWhenTheJournalIsRoots() throws Exception {
        Path output = directory.resolve("own.html");
        Command.CommandResult made = as(
                OWNER,
                commandForUsers(
                        "report",
                        "aaaa",
                        "-o",
                        output.toString(),
                        "--socket",
                        server.path().toString()));
        assertEquals(0, made.exitCode(), made.output());
        assertEquals(OWNER, Files.getAttribute(output, "unix:uid"));
        String page = Files.readString(output);
        assertTrue(page.contains("Migration " + OWNERS + " of job " + SECRET_JOB), page);
        assertTrue(page.contains("<td class=\"number\">8192</td>"), page);
        assertTrue(page.contains("hook (a path) failed for another user, beside another user's job"), page);
        for (String others : List.of("/root", "alice", "others-job", "user root", ATTACKERS, "mine")) {
            assertFalse(page.contains(others), others + " is in " + page);
        }
    }

    @Test
    void shouldRefuseAsIfItWereNotThereWhenAnAttackerNamesAnothersMigration() throws Exception {
        for (String attempt : List.of(OWNERS, OWNERS.substring(0, 5), "bbbb", "../journal", "%s%n", SECRET_JOB)) {
            JsonNode answer = ask(ATTACKER, attempt);
            assertEquals(1, answer.size(), answer.toString());
            assertEquals(
                    "there is no migration " + attempt + " of your jobs in the journal of this service. Remedy: give"
                            + " the name that ppmr migrate has printed",
                    answer.path("refused").asText());
        }
        assertTrue(ask(ATTACKER, "a".repeat(65)).path("refused").asText().contains("at most 64 characters"));
        for (String own : List.of("", "aaaa", ATTACKERS)) {
            JsonNode answer = ask(ATTACKER, own);
            assertEquals(ATTACKERS, answer.path("records").path("id").asText(), answer.toString());
            assertFalse(answer.toString().contains("secret"), answer.toString());
        }
        assertTrue(
                ask(0, "aaaa").path("refused").asText().startsWith("several migrations begin with"),
                "root is shown all of them");
    }

    @Test
    void shouldLimitTheAnswerWhenAMigrationHasManyRanksAndLongReasons() throws Exception {
        String id = "cccc1111";
        migration(id, OWNER + "/large", "user " + OWNER, "x".repeat(5000));
        for (int i = 0; i < 3000; i++) {
            journal.append(new TransactionRecord.StepTimed(
                    id, 1, "restart", i, "spare1:7411", System.currentTimeMillis(), 1_000_000, i));
        }
        journal.appendSynced(new TransactionRecord.Done(id, 1, FinalOutcome.ROLLED_BACK, "\u0001".repeat(5000)));
        JsonNode answer = ask(OWNER, id);
        assertTrue(answer.path("records").path("steps").size() <= 1000);
        assertTrue(
                answer.toString().length() < 1 << 20,
                "it has " + answer.toString().length() + " characters");
    }
}
