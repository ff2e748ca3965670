package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Jobs that share an object of the kernel with a process that is not moved with them, by real CRIU. A job that could
 * not continue correctly is refused before it is stopped. A job that sharing does not affect moves.
 */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SharedObjectsIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(30));
    private static final Path PROGRAM =
            Path.of(System.getProperty("ppmr.home"), "ppmr-checkpoint/target/native-test/sharing-job");

    @TempDir
    private Path directory;

    private CriuJob start(String kind, int ranks) throws IOException {
        return CriuJob.start(directory, "setsid " + PROGRAM + " " + kind + " \"$PWD\" " + ranks);
    }

    private ServicePair pair(Checkpointer criu) throws IOException, InterruptedException {
        return new ServicePair(
                directory, ServicePair.Options.with(criu).alsoRootsJobs().staging(64 << 20));
    }

    private static int rank(CriuJob job, String file) throws Exception {
        Path written = job.file(file);
        Conditions.until(
                LIMIT,
                file + " is written",
                () -> Files.exists(written) && Files.readString(written).endsWith("\n"));
        return Integer.parseInt(Files.readString(written).strip());
    }

    private static void requireRefused(MigrationReport report, String... words) {
        assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
        for (String word : words) {
            assertTrue(report.reason().contains(word), "'" + report.reason() + "' does not say '" + word + "'");
        }
        assertTrue(report.reason().contains("was not stopped: PID "), report.reason());
        assertTrue(report.reason().contains(". Remedy: "), report.reason());
    }

    private void refuse(String kind, String... words) throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = start(kind, 1);
                ServicePair pair = pair(criu)) {
            int root = rank(job, "pid");
            job.requireTurns();
            requireRefused(job.migrate(pair, criu, root), words);
            job.requireTurns();
            assertFalse(Files.exists(job.file("failed")));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "pipe-out, its data is read by PID",
        "stream, its other end belongs to PID",
        "anonymous, the same memory belongs to PID",
        "terminal, its other end belongs to PID",
        "traced, is traced",
    })
    void shouldRefuseBeforeThePauseWhatAProcessOutsideHolds(String kind, String words) throws Exception {
        refuse(kind, words);
    }

    @Tag("soak")
    @ParameterizedTest
    @CsvSource({
        "pipe-in, its data is written by PID",
        "fifo, its data is read by PID",
        "pair, its other end belongs to PID",
        "log, its other end belongs to PID",
        "served, its other end belongs to PID",
        "tcp, the same socket is open in PID",
        "memfd, the same memory belongs to PID",
        "mapped, the same memory belongs to PID",
        "file, the same open file",
        "input, the same open file",
        "eventfd, the same open file",
        "epoll, watches by epoll",
        "pidfd, has a pidfd of PID",
    })
    void shouldRefuseEveryKindBeforeThePause(String kind, String words) throws Exception {
        refuse(kind, words);
    }

    private void move(String kind) throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = start(kind, 1);
                ServicePair pair = pair(criu)) {
            int root = rank(job, "pid");
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu, root);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.requireTurns();
            MigrationReport again =
                    job.migrate(pair, criu, report.ranks().get(0).pids().get(0));
            assertEquals(Outcome.COMMITTED, again.outcome(), again.reason());
            job.requireTurns();
            assertFalse(Files.exists(job.file("failed")));
        }
    }

    /** It moves twice, as a job whose next node also fails. */
    @ParameterizedTest
    @ValueSource(strings = {"tables", "appended"})
    void shouldMoveWhatSharingDoesNotChange(String kind) throws Exception {
        move(kind);
    }

    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"widowed", "named", "folder", "devices", "own-pidfd"})
    void shouldMoveEveryKindThatSharingDoesNotChange(String kind) throws Exception {
        move(kind);
    }

    @Test
    void shouldMoveRanksThatShareAFileAsOneWhenTheirLeaderIsNamed() throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = start("file", 2);
                ServicePair pair = pair(criu)) {
            List<Integer> ranks = List.of(rank(job, "pid"), rank(job, "pid.1"));
            job.requireTurns();
            MigrationReport apart = CriuJob.migrateRanks(pair, criu, ranks);
            requireRefused(apart, "which belongs to rank 1", "Remedy: name PID " + job.pid() + " (sharing-job)");
            job.requireTurns();
            MigrationReport together = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, together.outcome(), together.reason());
            job.requireTurns();
        }
    }

    /** The rank opens a FIFO between the look and its stop: it is found once more before the copy may continue. */
    @Tag("soak")
    @Test
    void shouldGoOnWhenARankHasComeToShareSomethingBeforeItWasStopped() throws Exception {
        Checkpointer criu = CriuJob.criu();
        try (CriuJob job = start("late", 1);
                ServicePair pair = pair(criu)) {
            int root = rank(job, "pid");
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu, root);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            assertTrue(report.reason().contains("came to share an object"), report.reason());
            job.requireTurns();
        }
    }

    // ---- servers of the node ---------------------------------------------------------------------------------------

    @Test
    void shouldMoveAJobThatIsConnectedToTheLogWhenTheOperatorNamesIt() throws Exception {
        try (CriuJob job = start("log", 1)) {
            Checkpointer criu = CriuJob.criuBeside(List.of(job.file("log").toString()));
            try (ServicePair pair = pair(criu)) {
                int root = rank(job, "pid");
                job.requireTurns();
                MigrationReport report = job.migrate(pair, criu, root);
                assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
                job.requireTurns();
                assertFalse(Files.exists(job.file("failed")));
            }
        }
    }

    /** The client sees a connection that its server has closed, in the copy as it would in the original. */
    @Test
    void shouldMoveAJobThatIsConnectedToANameServiceWhenTheOperatorNamesIt() throws Exception {
        try (CriuJob job = start("stream", 1)) {
            Checkpointer criu = CriuJob.criuBeside(List.of(job.file("names").toString()));
            try (ServicePair pair = pair(criu)) {
                int root = rank(job, "pid");
                job.requireTurns();
                assertFalse(Files.exists(job.file("closed")));
                MigrationReport report = job.migrate(pair, criu, root);
                assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
                Conditions.until(LIMIT, "the copy sees the end", () -> Files.exists(job.file("closed")));
                job.requireTurns();
                assertFalse(Files.exists(job.file("failed")));
            }
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhenAServerDoesNotCloseItsEnd() throws Exception {
        try (CriuJob job = start("deaf", 1)) {
            Checkpointer criu = CriuJob.criuBeside(List.of(job.file("names").toString()));
            try (ServicePair pair = pair(criu)) {
                int root = rank(job, "pid");
                job.requireTurns();
                MigrationReport report = job.migrate(pair, criu, root);
                assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
                assertTrue(report.reason().contains("has not closed a connection"), report.reason());
                job.requireTurns();
            }
        }
    }
}
