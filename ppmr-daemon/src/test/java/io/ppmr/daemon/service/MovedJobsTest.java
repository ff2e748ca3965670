package io.ppmr.daemon.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.jobs.JobSources;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.UnknownJobException;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MovedJobsTest {
    /** A number above the kernel's largest PID, 4194304. */
    private static final int NO_PID = 999_999_999;

    private static final String ID = "882fe3a7-0000-0000-0000-000000000000";

    @TempDir
    private Path folder;

    private MovedJobs moved;

    @BeforeEach
    void writeJournal() throws Exception {
        try (MappedJournal journal = MappedJournal.open(folder.resolve(MappedJournal.FILE_NAME))) {
            journal.appendSynced(new TransactionRecord.Requested("m1", 0, "user root", "solver", ""));
            journal.appendSynced(new TransactionRecord.Begun("m1", 1, List.of("192.0.2.9:7411"), List.of()));
            journal.appendSynced(new TransactionRecord.Done("m1", 1, FinalOutcome.ROLLED_BACK, "no room"));
            journal.appendSynced(new TransactionRecord.Requested(ID, 0, "user root", "solver", ""));
            journal.appendSynced(new TransactionRecord.Begun(ID, 1, List.of("192.0.2.20:7411"), List.of()));
            journal.appendSynced(new TransactionRecord.Done(ID, 1, FinalOutcome.COMMITTED, ""));
        }
        moved = new MovedJobs(folder);
    }

    private Migrations migrations(int pid) {
        ConfiguredJob job = new ConfiguredJob(
                "solver", new JobUser(4711, 4711), null, List.of(new ConfiguredJob.RankSource(0, pid, null)));
        MigrationQueue queue = new MigrationQueue((id, order, cancellation, watcher) -> {
            throw new IllegalStateException("nothing may be moved");
        });
        return new Migrations(Map.of("solver", job), Optional.empty(), queue, JobSources.NONE, moved::lastMove);
    }

    @Test
    void shouldFindTheLastMoveOfAJob() {
        String move = moved.lastMove("solver").orElseThrow();
        assertTrue(move.startsWith("to 192.0.2.20:7411 at 20") && move.endsWith(" (migration 882fe3a7)"), move);
        assertEquals(Optional.empty(), moved.lastMove("other"));
    }

    @Test
    void shouldSayWhereToAndWhenIfAJobIsNoLongerHere() {
        RequestException refused = assertThrows(
                RequestException.class, () -> migrations(NO_PID).start("solver", "user root", event -> {}));
        assertTrue(refused.getMessage().contains("job solver was moved to 192.0.2.20:7411 at "), refused.getMessage());
        assertTrue(refused.getMessage().contains("Remedy: "), refused.getMessage());
    }

    @Test
    void shouldNameTheKnownJobsIfAJobIsUnknown() {
        UnknownJobException unknown = assertThrows(
                UnknownJobException.class, () -> migrations(NO_PID).start("nosuch", "user root", event -> {}));
        assertTrue(unknown.getMessage().contains("known are solver"), unknown.getMessage());
    }
}
