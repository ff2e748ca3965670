package io.ppmr.system;

import static io.ppmr.system.KillablePair.SOURCE;
import static io.ppmr.system.KillablePair.TARGET;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.control.ControlClient;
import io.ppmr.testbed.Conditions;
import io.ppmr.transaction.journal.TransactionRecord;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A target notifies a job that its ranks run there. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ResumedHookIT {
    @TempDir
    private Path directory;

    /** The folder in which hooks, which run as the job's user, write their arguments. */
    private Path told() throws Exception {
        Path folder = Files.createDirectory(directory.resolve("hook"));
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
        return folder.resolve("told");
    }

    private KillablePair pair(String resumed, String jobLines) throws Exception {
        String hook = "[resumed.ledger]\ncommand = [\"sh\", \"-c\", '%s']\n".formatted(resumed);
        return new KillablePair(Files.createTempDirectory(directory, "pair"), hook, jobLines);
    }

    @Tag("soak")
    @Test
    void shouldTellTheJobBeforeItsReconnectWhenItHasMoved() throws Exception {
        Path told = told();
        String resumed = "for one in $PPMR_PIDS; do grep -q State: /proc/${one#*:}/status || exit 1; done;"
                + " sleep 1; echo $PPMR_JOB, $PPMR_RANKS, $PPMR_SHARED >> " + told;
        String reconnect = "reconnect = [\"sh\", \"-c\", 'echo reconnect >> " + told + "']\n";
        try (KillablePair pair = pair(resumed, reconnect);
                LedgerJob job = pair.job()) {
            String id = pair.migrate();
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            job.runsThere();
            Conditions.until(
                    "both have told it",
                    () -> Files.exists(told) && Files.readAllLines(told).size() == 2);
            assertEquals(List.of("ledger, 0 1, 127.0.0.1:0,1", "reconnect"), Files.readAllLines(told));
        }
    }

    @Tag("soak")
    @Test
    void shouldTellTheJobAgainWhenTheTargetWasKilledMeanwhile() throws Exception {
        Path told = told();
        // The first time it stays until it is killed with what it waits for.
        String resumed = "echo told >> " + told + "; [ $(wc -l < " + told + ") -gt 1 ] || exec sleep 20";
        try (KillablePair pair = pair(resumed, "");
                LedgerJob job = pair.job()) {
            String id = pair.migrate();
            Conditions.until("the hook runs", () -> Files.exists(told));
            pair.awaitRecord(TARGET, id, TransactionRecord.CommittedHere.class);
            pair.service(TARGET).kill();
            pair.start(TARGET);
            Conditions.until("it is told again", () -> Files.readAllLines(told).size() == 2);
            job.runsThere();
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
        }
    }

    @Tag("soak")
    @Test
    void shouldStayCommittedWhenTheHookFails() throws Exception {
        try (KillablePair pair = pair("echo no way; exit 3", "");
                LedgerJob job = pair.job()) {
            String id = pair.migrate();
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            job.runsThere();
            String log = pair.service(TARGET).log();
            assertTrue(log.contains("may not receive the new place of its ranks"), log);
        }
    }

    @Tag("soak")
    @Test
    void shouldTellNobodyWhenTheMigrationIsRolledBack() throws Exception {
        Path told = told();
        try (KillablePair pair = pair("echo told >> " + told, "");
                LedgerJob job = pair.job()) {
            job.restarts(1, "read 1m", "touch " + job.mark("read"), "await " + job.mark("go"));
            String id = pair.migrate();
            job.awaitMark("read");
            try (ControlClient client = new ControlClient(pair.socket(SOURCE))) {
                client.cancel(id);
            }
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            assertFalse(Files.exists(told));
        }
    }
}
