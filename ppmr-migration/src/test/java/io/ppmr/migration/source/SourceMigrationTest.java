package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.ContentDigests;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.linux.BootClock;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorInbox;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.PreSharedKey;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests a migration whose worker hangs in a hook, in a scan of a process, or in a connection. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SourceMigrationTest {
    private static final Duration ANSWER = Duration.ofSeconds(1L * Integer.getInteger("ppmr.patience", 1));
    private static final Duration LIMIT = Duration.ofSeconds(20L * Integer.getInteger("ppmr.patience", 1));
    private static final JobNotes JOB = new JobNotes("a", List.of(0), Map.of(), JobHooks.NONE);

    @TempDir
    private Path directory;

    private final CountDownLatch begun = new CountDownLatch(1);
    private final CountDownLatch go = new CountDownLatch(1);
    private final AtomicInteger looks = new AtomicInteger();
    /** Delay of the migration's thread, because the node may be frozen at any time. */
    private volatile long lateNs;

    private final Cancellation cancellation = new Cancellation();
    private final CompletableFuture<MigrationReport> report = new CompletableFuture<>();
    private Process original;
    private SourceMigration migration;
    private Thread thread;

    /** The attempts of a job whose targets are never reached. The beginning hangs until the test ends that. */
    private final class HangingAttempts implements Attempts {
        private final MigrationPlan plan =
                MigrationPlan.spread(List.of(0), List.of(new InetSocketAddress(InetAddress.getLoopbackAddress(), 9)));

        @Override
        public void begin(int number, List<String> participants) throws InterruptedException {
            begun.countDown();
            go.await();
        }

        @Override
        public Map<String, SourceSession> sessions() {
            return Map.of();
        }

        @Override
        public void seal(String participant) {
            throw new AssertionError("nothing is whole");
        }

        @Override
        public boolean isDue() {
            return false;
        }

        @Override
        public void work() {
            throw new AssertionError("nothing is due");
        }

        @Override
        public void stopChecking() {
            // There are no checks.
        }

        @Override
        public boolean giveUp(int number, String reason) {
            return true;
        }

        @Override
        public List<String> next(String participant) {
            // The second result is used in time.
            lateNs = looks.incrementAndGet() == 1 ? Duration.ofSeconds(3).toNanos() : 0;
            return List.of();
        }

        @Override
        public boolean isUntouched() {
            return true;
        }

        @Override
        public boolean hasSuspended() {
            return false;
        }

        @Override
        public void close() {
            // There is no resource to release.
        }

        @Override
        public MigrationReport.Outcome outcomeWithoutCommit() {
            return MigrationReport.Outcome.ROLLED_BACK;
        }

        @Override
        public String reason(String last) {
            return last;
        }

        @Override
        public Optional<KeptImageReport> copy() {
            return Optional.empty();
        }

        @Override
        public MigrationPlan plan() {
            return plan;
        }

        @Override
        public Optional<String> waitsFor() {
            return Optional.empty();
        }

        @Override
        public boolean responds(long limitNs) {
            return true;
        }
    }

    private SourceContext service() throws Exception {
        BufferPool pool = new BufferPool(PoolGeometry.of(1 << 20, 64 << 10));
        FairClaims claims = new FairClaims(pool);
        Path work = directory.resolve("work");
        SourceSettings settings = new SourceSettings(
                new NodeSettings(directory.resolve("mount"), work, LIMIT),
                directory.resolve("journal"),
                pool.geometry(),
                new PreSharedKey("a key that only this test knows, 32+".getBytes(StandardCharsets.US_ASCII)),
                new SpareNodes.Listed(List.of()),
                new SourceSettings.Connecting(1, LIMIT),
                new MigrationLimits(LIMIT, LIMIT, LIMIT, Duration.ofMinutes(5), 1, 1 << 20),
                SourceSettings.USUAL_RATE_TIME,
                RightsBounds.DEFAULT_FILES,
                Optional.empty(),
                JobFiles.USUAL);
        return new SourceContext(
                settings,
                new SourceContext.ImageBuffers(pool, claims, new OutgoingImageView()),
                TransportChoice.tcp(),
                new SourceMetrics(new SimpleMeterRegistry(), pool, claims),
                MappedJournal.in(settings.journal()),
                new ProcessTable(),
                new NativePrograms(directory),
                RankSurroundings.NONE,
                new ContentDigests(),
                new NodeProbe(Path.of("/"), 0, pool.geometry().chunkBytes(), List.of()),
                this::nowNs);
    }

    private long nowNs() {
        boolean isLate = Thread.currentThread() == thread;
        return BootClock.nowNs() + (isLate ? lateNs : 0);
    }

    @BeforeEach
    void begin() throws Exception {
        original = new ProcessBuilder("/bin/sleep", "600").start();
        ProcessIdentity root = new ProcessTable().of((int) original.pid());
        SourceContext service = service();
        MigrationRecord record = new MigrationRecord("m-1", "blcr", service, progress -> {});
        OriginalRanks originals = OriginalRanks.recorded(
                "m-1",
                service.processes(),
                RankSurroundings.NONE,
                service.names("m-1"),
                service.settings().node().workDirectory(),
                List.of(new PlannedRank(0, "127.0.0.1:9", List.of(root))),
                List.of());
        HangingAttempts attempts = new HangingAttempts();
        migration = new SourceMigration(
                new SourceMigration.Parts(
                        service,
                        record,
                        JOB,
                        MigrationSecret.random(),
                        originals,
                        new HookRunner("m-1", JOB, service, false),
                        cancellation),
                made -> attempts,
                0,
                coordinator -> coordinator.start(attempts.plan().addresses(), List.of(), BootClock.nowNs()),
                (given, isOver) -> {
                    assertTrue(isOver, given::toString);
                    report.complete(given);
                });
        thread = new Thread(
                () -> {
                    try {
                        migration.run();
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                    }
                },
                "a-migration");
        thread.start();
        assertTrue(begun.await(LIMIT.toSeconds(), TimeUnit.SECONDS));
    }

    @AfterEach
    void end() throws Exception {
        cancellation.cancel("the test ends");
        go.countDown();
        thread.join(LIMIT.toMillis());
        original.destroyForcibly().waitFor();
        assertFalse(thread.isAlive(), "it has ended");
    }

    @Test
    void shouldAnswerWithinASecondWhileItsWorkerHangs() throws Exception {
        assertTimeout(ANSWER, () -> assertTrue(cancellation.cancel("an operator")));
        assertTimeout(ANSWER, () -> assertEquals(Optional.empty(), migration.open(), "nobody is waited for"));
        assertTimeout(ANSWER, () -> assertFalse(migration.waitsForCheckpoints()));
        OperatorInbox.PendingDecision call = new OperatorInbox.PendingDecision(
                new OperatorDecision(FinalOutcome.ROLLED_BACK, Set.of(), false, false), false, "somebody", 0);
        assertTrue(migration.submit(call));
        assertNotNull(assertTimeout(ANSWER, () -> call.await(ANSWER.toNanos())), "the migration's thread answers");
        assertFalse(report.isDone());
    }

    @Test
    void shouldRollBackWithTheOriginalUntouchedWhenTheWorkerGoesOnAfterACancellation() throws Exception {
        assertTrue(cancellation.cancel("called off by a test"));
        go.countDown();
        MigrationReport ended = report.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertEquals(MigrationReport.Outcome.ROLLED_BACK, ended.outcome());
        assertEquals("called off by a test", ended.reason());
        assertTrue(original.isAlive());
    }

    @Test
    void shouldFailOnceWhenItsAttemptFailsWhileTheWorkerHangs() throws Exception {
        migration.failed(1, new Attempt.Failure("the first reason", ""));
        migration.failed(1, new Attempt.Failure("another reason", ""));
        go.countDown();
        assertEquals(
                "the first reason",
                report.get(LIMIT.toSeconds(), TimeUnit.SECONDS).reason());
        assertFalse(cancellation.reason().isPresent());
    }

    @Test
    void shouldLookOnceMoreWhenTheNodeWasFrozenAfterALook() throws Exception {
        migration.failed(1, new Attempt.Failure("a target is gone", "127.0.0.1:9"));
        go.countDown();
        assertEquals(
                "a target is gone",
                report.get(LIMIT.toSeconds(), TimeUnit.SECONDS).reason());
        assertEquals(2, looks.get(), "what was proved 3 s ago may no longer hold");
    }
}
