package io.ppmr.system;

import static io.ppmr.system.KillablePair.SOURCE;
import static io.ppmr.system.KillablePair.TARGET;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.testbed.Conditions;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A service or a command is killed at a step, and the service is started again. The computation exists exactly once,
 * and its result is right. See "What is promised" in docs/internals/transaction.md. One pair of services serves all
 * cases, unless one fails.
 */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class TransactionDeathIT {
    @TempDir
    private static Path directory;

    private static KillablePair pair;
    private static boolean wentWell;

    @BeforeEach
    void startServices() throws Exception {
        if (pair == null) {
            pair = new KillablePair(Files.createTempDirectory(directory, "pair"), "");
        }
        wentWell = false;
    }

    @AfterEach
    void dropServicesIfAnythingFailed() throws IOException {
        if (pair != null && !(wentWell && pair.isWell())) {
            pair.close();
            pair = null;
        }
    }

    @AfterAll
    static void endServices() throws IOException {
        if (pair != null) {
            pair.close();
            pair = null;
        }
    }

    /** The migration is over on both sides, and no command and no file of it is left. */
    private static void isOver(LedgerJob job, String id) throws Exception {
        pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
        Conditions.until(
                "no command of the migration is left", () -> job.programs().size() == KillablePair.RANKS);
        Conditions.until("no work directory of the migration is left", () -> pair.workDirectories(id)
                .isEmpty());
        wentWell = true;
    }

    /** Rank 0 is restored, and both services have recorded it. */
    private static void awaitRestored(String id) throws Exception {
        Conditions.until(
                "rank 0 is restored",
                () -> pair.service(SOURCE).log().contains("migration " + id + ": rank 0 is restored and held"));
    }

    @ParameterizedTest
    @ValueSource(strings = {SOURCE})
    void shouldGoOnWhereItWasWhenAServiceIsKilledWhileWriting(String role) throws Exception {
        try (LedgerJob job = pair.job()) {
            job.checkpoints(1, "write 1m", "touch " + job.mark("half"), "await " + job.mark("go"), "write 1m");
            String id = pair.migrate();
            job.awaitMark("half");
            awaitRestored(id);
            pair.service(role).kill();
            pair.start(role);
            job.set("go");
            job.runsHere();
            isOver(job, id);
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {TARGET})
    void shouldGoOnWhereItWasWhenAServiceIsKilledWhileWritingAsWell(String role) throws Exception {
        shouldGoOnWhereItWasWhenAServiceIsKilledWhileWriting(role);
    }

    @ParameterizedTest
    @ValueSource(strings = {TARGET})
    void shouldGoOnWhereItWasWhenAServiceIsKilledBeforeTheVote(String role) throws Exception {
        try (LedgerJob job = pair.job()) {
            job.restarts(1, "read 1m", "eof", "touch " + job.mark("read"), "await " + job.mark("go"));
            String id = pair.migrate();
            job.awaitMark("read");
            pair.awaitRecord(SOURCE, id, TransactionRecord.Sealed.class);
            awaitRestored(id);
            pair.service(role).kill();
            job.standsStill();
            pair.start(role);
            job.runsHere();
            isOver(job, id);
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {SOURCE})
    void shouldGoOnWhereItWasWhenAServiceIsKilledBeforeTheVoteAsWell(String role) throws Exception {
        shouldGoOnWhereItWasWhenAServiceIsKilledBeforeTheVote(role);
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhereItWasWhenTheSourceIsKilledAfterTheVote() throws Exception {
        try (LedgerJob job = pair.job()) {
            String id = pair.voted(job);
            pair.service(SOURCE).kill();
            job.standsStill();
            assertEquals(1, job.livingCopies(0), "the copy is held");
            pair.start(SOURCE);
            job.runsHere();
            isOver(job, id);
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnOnceWhenTheTargetIsKilledAfterItsVote() throws Exception {
        try (LedgerJob job = pair.job()) {
            String id = pair.voted(job);
            pair.service(TARGET).kill();
            pair.service(SOURCE).thaw();
            job.standsStill();
            pair.start(TARGET);
            job.isMoved();
            isOver(job, id);
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnOnceWhenBothAreKilledAfterTheVote() throws Exception {
        try (LedgerJob job = pair.job()) {
            String id = pair.voted(job);
            pair.service(SOURCE).kill();
            pair.service(TARGET).kill();
            job.standsStill();
            pair.start(TARGET);
            pair.start(SOURCE);
            job.isMoved();
            isOver(job, id);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {SOURCE})
    void shouldGoOnThereWhenAServiceIsKilledAfterTheDecision(String role) throws Exception {
        try (LedgerJob job = pair.job()) {
            String id = pair.migrate();
            pair.awaitRecord(SOURCE, id, TransactionRecord.CommitDecided.class);
            pair.service(role).kill();
            pair.start(role);
            job.runsThere();
            isOver(job, id);
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {TARGET})
    void shouldGoOnThereWhenAServiceIsKilledAfterTheDecisionAsWell(String role) throws Exception {
        shouldGoOnThereWhenAServiceIsKilledAfterTheDecision(role);
    }

    @Tag("soak")
    @Test
    void shouldGoOnThereWhenTheTargetIsKilledAsItsCopiesAreReleased() throws Exception {
        try (LedgerJob job = pair.job()) {
            String id = pair.migrate();
            pair.awaitRecord(TARGET, id, TransactionRecord.CommittedHere.class);
            pair.service(TARGET).kill();
            pair.start(TARGET);
            job.runsThere();
            isOver(job, id);
        }
    }

    @Tag("soak")
    @Test
    void shouldLeaveItStoppedThereWhenTheTargetIsKilledAsItsCopiesAreReleased() throws Exception {
        try (LedgerJob job = pair.job()) {
            LedgerJob.stop(job.pid(0));
            String id = pair.migrate();
            pair.awaitRecord(TARGET, id, TransactionRecord.CommittedHere.class);
            pair.service(TARGET).kill();
            pair.start(TARGET);
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            job.runsThere(1);
            assertTrue(LedgerJob.isStopped(job.copy(0)), "the job had stopped it");
            LedgerJob.goOn(job.copy(0));
            job.runsThere();
            isOver(job, id);
        }
    }

    @Tag("soak")
    @Test
    void shouldLeaveItStoppedWhereItWasWhenTheSourceIsKilledWhileWriting() throws Exception {
        try (LedgerJob job = pair.job()) {
            LedgerJob.stop(job.pid(0));
            job.checkpoints(1, "write 1m", "touch " + job.mark("half"), "await " + job.mark("go"), "write 1m");
            String id = pair.migrate();
            job.awaitMark("half");
            awaitRestored(id);
            pair.service(SOURCE).kill();
            pair.start(SOURCE);
            job.set("go");
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            job.runsHere(1);
            assertTrue(LedgerJob.isStopped(job.pid(0)), "the job had stopped it");
            LedgerJob.goOn(job.pid(0));
            job.runsHere();
            isOver(job, id);
        }
    }

    @Tag("soak")
    @Test
    void shouldEndTheCheckpointOfAKilledSourceBeforeItsOriginalGoesOn() throws Exception {
        try (LedgerJob job = pair.job()) {
            job.checkpoints(1, "write 1m", "touch " + job.mark("half"), "await " + job.mark("never"), "write 1m");
            String id = pair.migrate();
            job.awaitMark("half");
            pair.service(SOURCE).kill();
            pair.start(SOURCE);
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            assertEquals(KillablePair.RANKS, job.programs().size(), "a checkpoint works on beside its original");
            job.runsHere();
            isOver(job, id);
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhereItWasWhenACheckpointerIsKilled() throws Exception {
        try (LedgerJob job = pair.job()) {
            job.checkpoints(1, "write 1m", "die");
            String id = pair.migrate();
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            job.runsHere();
            isOver(job, id);
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhereItWasWhenARestartIsKilled() throws Exception {
        try (LedgerJob job = pair.job()) {
            job.restarts(0, "read 1m", "die");
            String id = pair.migrate();
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            job.runsHere();
            isOver(job, id);
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnThereWhenTheSourceNodeIsLostAfterTheVoteAndProvedOff() throws Exception {
        replacePair("[fence]\ncommand = [\"true\"]\ndelay = \"1s\"\ndeadline = \"20s\"\n");
        try (LedgerJob job = pair.job()) {
            loseSourceNode(job);
            job.runsThere();
        }
    }

    @Tag("soak")
    @Test
    void shouldHoldTheCopiesAndSaySoWhenTheLostSourceNodeIsNotProvedOff() throws Exception {
        replacePair("[fence]\ncommand = [\"false\"]\ndelay = \"1s\"\ndeadline = \"20s\"\n");
        try (LedgerJob job = pair.job()) {
            loseSourceNode(job);
            Conditions.until(
                    "the target says that the source is not proved off",
                    () -> pair.service(TARGET).log().contains("does not prove the source off"));
            job.standsStill();
            assertEquals(1, job.livingCopies(0), "the copies are held");
            assertEquals(1, job.livingCopies(1), "the copies are held");
        }
    }

    private static void replacePair(String fence) throws Exception {
        pair.close();
        pair = new KillablePair(Files.createTempDirectory(directory, "fenced"), fence);
    }

    /** The source's service and the originals die as with their node, and never return. */
    private static void loseSourceNode(LedgerJob job) throws Exception {
        pair.voted(job);
        pair.service(SOURCE).kill();
        for (int rank = 0; rank < KillablePair.RANKS; rank++) {
            job.killOriginal(rank);
        }
        assertFalse(pair.isWell(), "its pair is dropped after the test");
    }
}
