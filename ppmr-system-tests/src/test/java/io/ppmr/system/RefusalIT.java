package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Patience;
import io.ppmr.transport.auth.PreSharedKey;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Migrations that cannot begin. Each reports the reason and the remedy, and the originals are untouched. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RefusalIT {
    private static final List<String> CHECKPOINT = List.of("open image wcx", "write 1m", "close");
    /** A user that every Debian has. */
    private static final String NOBODY = "65534";

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
            job.fails(pair, Outcome.REFUSED, "is no living process of this node", "Remedy: correct the job's list");
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
            job.fails(
                    pair,
                    Outcome.REFUSED,
                    "PID " + other.pid() + " belongs to user 0",
                    "not to the job's user 20001",
                    "Remedy");
        } finally {
            other.destroyForcibly();
        }
    }

    @Test
    void shouldRefuseWhenTheTargetsUserDatabaseDoesNotKnowTheUser() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair =
                        pair(ServicePair.Options.with(job.checkpointer()).knownUsers())) {
            job.fails(pair, Outcome.REFUSED, "user database has no user 20001", "set unknown_users = true");
        }
    }

    /** A peer with the key names a group that would open others' files to the restored job. */
    @ParameterizedTest(name = "group {0}, unknown users {1}")
    @CsvSource({"0, true", "0, false", "4, false"})
    void shouldRefuseWhenTheUserDatabaseDoesNotGrantTheGroup(int group, boolean unknownUsers) throws Exception {
        Process original = new ProcessBuilder(
                        "setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "sleep", "60")
                .start();
        try (ReplayJob job = job();
                ServicePair pair = pair(
                        unknownUsers
                                ? ServicePair.Options.with(job.checkpointer())
                                : ServicePair.Options.with(job.checkpointer()).knownUsers())) {
            JobUser claimed = new JobUser(Integer.parseInt(NOBODY), group);
            MigrationReport report = job.migrateAs(pair, claimed, original.pid());
            assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
            assertTrue(
                    report.reason().contains("assigns user " + NOBODY + " to group " + group + ", but this node's"),
                    report.reason());
        } finally {
            original.destroyForcibly();
        }
    }

    @Test
    void shouldRefuseRootsGroupWhenTheUserIsUnknown() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair = pair(ServicePair.Options.with(job.checkpointer()))) {
            MigrationReport report = job.migrateAs(pair, new JobUser(ReplayJob.USER.uid(), 0), job.pid(0));
            assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
            assertTrue(report.reason().contains("group except root's"), report.reason());
        }
    }

    @Test
    void shouldLeaveNothingWhenTheTargetEndsAsTheMigrationBegins() throws Exception {
        CountDownLatch begins = new CountDownLatch(1);
        AtomicBoolean goesOn = new AtomicBoolean();
        try (ReplayJob job = job();
                ServicePair pair = pair(ServicePair.Options.with(job.checkpointer()))) {
            pair.target().onChange(() -> {
                if (begins.getCount() == 1) {
                    begins.countDown();
                    // The service ends during this time. A close that does not wait would have returned long before.
                    LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(1));
                    goesOn.set(true);
                }
            });
            CompletableFuture<MigrationReport> moved = new CompletableFuture<>();
            Thread source = new Thread(() -> {
                try {
                    moved.complete(job.migrate(pair));
                } catch (InterruptedException e) {
                    moved.completeExceptionally(e);
                }
            });
            source.start();
            assertTrue(begins.await(Patience.of(60), TimeUnit.SECONDS), "the target has not heard of the migration");
            pair.target().close();
            assertTrue(goesOn.get(), "the target's service has ended before a migration that began in it");
            assertEquals(Set.of(), pair.target().migrations());
            MigrationReport report = moved.get(Patience.of(60), TimeUnit.SECONDS);
            assertTrue(report.reason().contains("the target's service ends"), report.reason());
            assertTrue(job.originalsRun(), "an original does not run");
            source.join();
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
            job.fails(pair, Outcome.REFUSED, "65536", "262144", "configure the same pool.chunk on both nodes");
        }
    }

    @Test
    void shouldRefuseWhenTheKeysDiffer() throws Exception {
        PreSharedKey other =
                new PreSharedKey("another key than the target has: 32+".getBytes(StandardCharsets.US_ASCII));
        try (ReplayJob job = job();
                ServicePair pair =
                        pair(ServicePair.Options.with(job.checkpointer()).sourceKey(other))) {
            job.fails(pair, Outcome.REFUSED, "127.0.0.1", "key");
        }
    }

    @Test
    void shouldRefuseWhenTheTargetDoesNotListen() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair = pair(ServicePair.Options.with(job.checkpointer()))) {
            pair.target().close();
            job.fails(pair, Outcome.REFUSED, "127.0.0.1", "cannot be reached", "is its ppmr service running");
        }
    }

    @Test
    void shouldMoveTheJobAfterwardsWhenOnlyOneOfItsMigrationsIsRefused() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair = pair(ServicePair.Options.with(job.checkpointer()))) {
            try (ReplayJob wrong = new ReplayJob(directory.resolve("job")).stranger(endedProcess())) {
                wrong.fails(pair, Outcome.REFUSED, "is no living process of this node");
            }
            job.commits(pair);
        }
    }
}
