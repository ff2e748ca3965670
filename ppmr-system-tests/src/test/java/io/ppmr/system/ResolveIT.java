package io.ppmr.system;

import static io.ppmr.system.KillablePair.SOURCE;
import static io.ppmr.system.KillablePair.TARGET;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * An operator decides by {@code ppmr resolve} where ranks are held because a process or a node is permanently lost. The
 * computation continues once, with the right result. Unproved steps require an operator's confirmation.
 */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ResolveIT {
    private static final int OK = 0;
    private static final int REFUSED = 4;
    private static final int IN_DOUBT = 5;
    private static final long COMMAND_S = Patience.of(120);

    @TempDir
    private Path directory;

    private KillablePair pair(String targetFence) throws Exception {
        return new KillablePair(Files.createTempDirectory(directory, "pair"), targetFence);
    }

    /** Runs a command as an operator does, and returns its output. */
    private String ppmr(int exitCode, KillablePair pair, String role, String... words) throws Exception {
        List<String> arguments = new ArrayList<>(List.of(words));
        arguments.addAll(List.of("--socket", pair.socket(role).toString()));
        Path output = directory.resolve("output");
        Process process = new ProcessBuilder(ServiceProcess.command(arguments.toArray(new String[0])))
                .redirectErrorStream(true)
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(output.toFile())
                .start();
        try {
            assertTrue(process.waitFor(COMMAND_S, TimeUnit.SECONDS), "ppmr does not end: " + arguments);
        } finally {
            process.destroyForcibly();
        }
        String said = Files.readString(output, StandardCharsets.UTF_8);
        assertEquals(exitCode, process.exitValue(), said);
        return said;
    }

    /** Sends it to the service without a command of its own, and requires that it is refused. */
    private static String refused(KillablePair pair, String role, String id, FinalOutcome outcome, String... targetsOff)
            throws Exception {
        OperatorDecision word = new OperatorDecision(outcome, Set.of(targetsOff), false, false);
        try (ControlClient client = new ControlClient(pair.socket(role))) {
            Resolution answer = client.resolve(id, word, true, Duration.ofSeconds(COMMAND_S));
            assertEquals(Resolution.ResolutionResult.REFUSED, answer.result(), answer.text());
            return answer.text();
        }
    }

    private static void says(String text, String... words) {
        for (String word : words) {
            assertTrue(text.contains(word), "'" + text + "' does not say '" + word + "'");
        }
    }

    /** Waits until a service's status has a migration that is blocked on an unreachable peer. */
    private static OpenMigration awaitHeld(KillablePair pair, String role, String id) throws Exception {
        OpenMigration[] found = new OpenMigration[1];
        Conditions.until("the " + role + "'s status says that ranks are held", () -> {
            for (OpenMigration one : open(pair, role)) {
                if (one.id().equals(id) && one.waitsFor() != null) {
                    found[0] = one;
                }
            }
            return found[0] != null;
        });
        return found[0];
    }

    private static List<OpenMigration> open(KillablePair pair, String role) throws IOException {
        try (ControlClient client = new ControlClient(pair.socket(role))) {
            return client.status().open();
        }
    }

    private static void loseSourceNode(KillablePair pair, LedgerJob job) throws Exception {
        pair.service(SOURCE).kill();
        for (int rank = 0; rank < KillablePair.RANKS; rank++) {
            job.killOriginal(rank);
        }
    }

    @Tag("soak")
    @Test
    void shouldLetTheRestGoOnWhenAnOriginalIsGoneAndAnOperatorSaysRollback() throws Exception {
        try (KillablePair pair = pair("");
                LedgerJob job = pair.job()) {
            job.restarts(1, "read 1m", "touch " + job.mark("read"), "await " + job.mark("go"), "open missing r");
            String id = pair.migrate();
            job.awaitMark("read");
            // Both originals are held by then.
            pair.awaitRecord(SOURCE, id, TransactionRecord.Sealed.class);
            says(
                    refused(pair, SOURCE, id, FinalOutcome.ROLLED_BACK),
                    "under way and not in doubt",
                    "ppmr cancel " + id);
            job.killOriginal(0);
            job.set("go");
            pair.awaitRecord(SOURCE, id, TransactionRecord.Broken.class);
            OpenMigration held = awaitHeld(pair, SOURCE, id);
            assertEquals("BROKEN", held.phase());
            assertEquals(List.of(1), held.heldRanks());
            says(
                    ppmr(OK, pair, SOURCE, "status"),
                    "open: migration " + id + ", BROKEN since",
                    "held here: ranks [1]",
                    "`ppmr resolve " + id + " --rollback`");
            says(refused(pair, SOURCE, "no-such", FinalOutcome.ROLLED_BACK), "not known here", id);
            says(
                    ppmr(REFUSED, pair, SOURCE, "resolve", "no-such", "--rollback", "--json"),
                    "\"result\" : \"REFUSED\"",
                    "not known here");
            says(
                    ppmr(REFUSED, pair, SOURCE, "resolve", id, "--rollback"),
                    "the computation is not whole",
                    "nothing was decided. Remedy: add --yes");
            job.standsStill();
            ppmr(OK, pair, SOURCE, "resolve", id.substring(0, 8), "--rollback", "--yes");
            job.runsHere(1);
            Conditions.until("it is over", () -> open(pair, SOURCE).isEmpty());
            says(refused(pair, SOURCE, id, FinalOutcome.ROLLED_BACK), "is decided and over: it was rolled back");
        }
    }

    @Tag("soak")
    @Test
    void shouldTakeOverOnlyOnAnOperatorsWordWhenTheSourceNodeIsGoneAndThereIsNoFence() throws Exception {
        String hook = """
                [reconnect.ledger]
                command = ["sh", "-c", "cd %s; cat $PPMR_MAP > told; echo $PPMR_JOB, $PPMR_RANKS, $PPMR_SHARED >> told"]
                """;
        Path told = Files.createDirectory(directory.resolve("hook"));
        Files.setPosixFilePermissions(told, PosixFilePermissions.fromString("rwxrwxrwx"));
        try (KillablePair pair = pair(hook.formatted(told));
                LedgerJob job = pair.job()) {
            String id = pair.voted(job);
            loseSourceNode(pair, job);
            OpenMigration held = awaitHeld(pair, TARGET, id);
            assertEquals(List.of(0, 1), held.heldRanks());
            says(held.waitsFor(), "ppmr resolve " + id + " --commit --source-is-off");
            says(pair.service(TARGET).log(), "IN DOUBT: the copies here are held, because the source (127.0.0.1)");
            says(
                    ppmr(OK, pair, TARGET, "status", "--json"),
                    "\"open\":[{\"id\":\"" + id + "\",\"phase\":\"PREPARED\"",
                    "\"heldRanks\":[0,1]");
            says(
                    ppmr(REFUSED, pair, TARGET, "resolve", id, "--commit", "--yes"),
                    "there is no fence command",
                    "--source-is-off");
            says(refused(pair, TARGET, id, FinalOutcome.ROLLED_BACK), "--source-is-off");
            job.standsStill();
            says(
                    ppmr(OK, pair, TARGET, "resolve", id, "--commit", "--source-is-off", "--yes"),
                    "counts as off from now on",
                    "has committed: its copies run here");
            assertEquals(
                    List.of("0 127.0.0.1", "1 127.0.0.1", "ledger, 0 1, 127.0.0.1:0,1"),
                    Files.readAllLines(told.resolve("told")));
            job.runsThere();
            says(refused(pair, TARGET, id, FinalOutcome.ROLLED_BACK), "it has committed");
        }
    }

    @Tag("soak")
    @Test
    void shouldTakeOverWhenAnOperatorHasTheFenceRunAgainAndItProvesTheSourceOff() throws Exception {
        Path proof = directory.resolve("proof");
        String fence = "[fence]\ncommand = [\"test\", \"-e\", \"%s\"]\ndelay = \"1s\"\ndeadline = \"5s\"\n";
        try (KillablePair pair = pair(fence.formatted(proof));
                LedgerJob job = pair.job()) {
            String id = pair.voted(job);
            loseSourceNode(pair, job);
            Conditions.until(
                    "the fence command has failed",
                    () -> pair.service(TARGET).log().contains("does not prove the source off"));
            says(
                    ppmr(IN_DOUBT, pair, TARGET, "resolve", id, "--commit", "--yes", "--json"),
                    "It may cut the power",
                    "\"result\" : \"STILL_HELD\"",
                    "was not proved off");
            job.standsStill();
            Files.createFile(proof);
            ppmr(OK, pair, TARGET, "resolve", id, "--commit", "--yes");
            job.runsThere();
        }
    }

    @Tag("soak")
    @Test
    void shouldLetTheOriginalsGoOnWhenTheTargetNodeIsGoneAfterItsVoteAndAnOperatorSaysSo() throws Exception {
        try (KillablePair pair = pair("");
                LedgerJob job = pair.job()) {
            String id = pair.voted(job);
            pair.service(TARGET).kill();
            job.killCopies();
            pair.service(SOURCE).thaw();
            pair.awaitRecord(SOURCE, id, TransactionRecord.RollBackDecided.class);
            // The next run of the service has only its journal.
            pair.service(SOURCE).kill();
            pair.start(SOURCE);
            OpenMigration held = awaitHeld(pair, SOURCE, id);
            assertTrue(held.recovered());
            assertEquals(List.of(0, 1), held.heldRanks());
            says(held.waitsFor(), pair.targetName(), "--rollback --target-is-off");
            says(refused(pair, SOURCE, id, FinalOutcome.ROLLED_BACK), "--target-is-off " + pair.targetName());
            says(refused(pair, SOURCE, id, FinalOutcome.COMMITTED), "decided already: it is rolled back");
            says(refused(pair, SOURCE, id, FinalOutcome.ROLLED_BACK, "other:1"), "takes no part");
            job.standsStill();
            ppmr(OK, pair, SOURCE, "resolve", id, "--rollback", "--target-is-off", pair.targetName(), "--yes");
            job.runsHere();
            assertFalse(pair.isWell(), "the target stays away");
        }
    }
}
