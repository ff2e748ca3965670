package io.ppmr.system;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.transport.auth.PreSharedKey;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Migrations that cannot begin: each says why and what would help, and the originals were not touched. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RefusalIT {
    private static final List<String> CHECKPOINT = List.of("open image wcx", "write 1m", "close");
    private static final List<String> RESTART = List.of("open image r", "read 1m", "eof");

    @TempDir
    private Path directory;

    private ReplayJob job() throws Exception {
        return new ReplayJob(directory).rank(CHECKPOINT, RESTART);
    }

    private ServicePair pair(ServicePair.Options options) throws Exception {
        return new ServicePair(directory, options);
    }

    @Test
    void shouldRefuseWhenAPidDoesNotExist() throws Exception {
        try (ReplayJob job = job().stranger(endedProcess());
                ServicePair pair = pair(ServicePair.Options.with(job.checkpointer()))) {
            job.rollsBack(pair, "is no living process of this node", "Remedy: correct the job's list");
        }
    }

    private static long endedProcess() throws Exception {
        Process process = new ProcessBuilder("true").start();
        process.waitFor();
        return process.pid();
    }

    @Test
    void shouldRefuseWhenAPidBelongsToAnotherUser() throws Exception {
        Process other = new ProcessBuilder("sleep", "60").start();
        try (ReplayJob job = job().stranger(other.pid());
                ServicePair pair = pair(ServicePair.Options.with(job.checkpointer()))) {
            job.rollsBack(pair, "PID " + other.pid() + " belongs to user 0", "not to the job's user 20001", "Remedy");
        } finally {
            other.destroyForcibly();
        }
    }

    @Test
    void shouldRefuseWhenTheTargetIsNotConfiguredForTheCheckpointer() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair =
                        pair(ServicePair.Options.with(job.checkpointer()).restores(List.of()))) {
            job.fails(pair, Outcome.REFUSED, "target ", "not configured to restore images of checkpointer command");
        }
    }

    @Test
    void shouldRefuseWhenTheChunksDiffer() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair = pair(
                        ServicePair.Options.with(job.checkpointer()).sourcePool(PoolGeometry.of(8 << 20, 64 << 10)))) {
            job.fails(pair, Outcome.REFUSED, "65536", "131072", "configure the same pool.chunk on both nodes");
        }
    }

    @Test
    void shouldRefuseWhenTheKeysDiffer() throws Exception {
        PreSharedKey other =
                new PreSharedKey("another key than the target has: 32+".getBytes(StandardCharsets.US_ASCII));
        try (ReplayJob job = job();
                ServicePair pair =
                        pair(ServicePair.Options.with(job.checkpointer()).sourceKey(other))) {
            job.rollsBack(pair, "127.0.0.1", "key");
        }
    }

    @Test
    void shouldRefuseWhenTheTargetDoesNotListen() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair = pair(ServicePair.Options.with(job.checkpointer()))) {
            pair.target().close();
            job.rollsBack(pair, "127.0.0.1", "cannot be reached", "is its ppmr service running");
        }
    }

    @Test
    void shouldMoveTheJobAfterwardsWhenOnlyOneOfItsMigrationsIsRefused() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair = pair(ServicePair.Options.with(job.checkpointer()))) {
            try (ReplayJob wrong = new ReplayJob(directory.resolve("job")).stranger(endedProcess())) {
                wrong.rollsBack(pair, "is no living process of this node");
            }
            job.commits(pair);
        }
    }
}
