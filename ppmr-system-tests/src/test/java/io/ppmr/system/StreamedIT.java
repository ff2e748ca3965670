package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationReport;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Streamed images through real mounts: each pattern call by call. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class StreamedIT {
    @TempDir
    private Path directory;

    @Test
    void shouldMoveARankWhenItsImageIsLargerThanThePool() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcxn", "write 64m 1m", "fsync", "close"),
                                List.of("open image r", "read 64m 100000", "close"));
                ServicePair pair = new ServicePair(directory, ServicePair.Options.with(job.checkpointer()))) {
            MigrationReport report = job.migrate(pair);
            assertEquals(MigrationReport.Outcome.COMMITTED, report.outcome(), report.reason());
            assertEquals(64 << 20, report.images().bytes());
            assertEquals(0, report.images().stagedBytes());
            assertTrue(job.originalsAreGone());
            assertTrue(job.copiesRun());
        }
    }
}
