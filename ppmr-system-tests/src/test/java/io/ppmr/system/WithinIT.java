package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.target.TargetService;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Processes that write their images themselves and abort on the first call that fails, as DMTCP does. They continue
 * with the right result after every failure, at any time.
 */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WithinIT {
    private static final Duration LONG_PAUSE = Duration.ofMinutes(5);
    private static final long WAIT_S = Patience.of(120);

    private static final OperatorDecision ROLLBACK =
            new OperatorDecision(io.ppmr.transaction.journal.FinalOutcome.ROLLED_BACK, Set.of(), false, false);

    /** The file is larger than both pools. Returns its final content. */
    private static final List<String> IMAGE = List.of(
            "write 3000",
            "write 1m",
            "fsync",
            "fsize 1051640",
            "write 12m",
            "truncate 14000000",
            "chmod 0640 image.temp",
            "fsize 14000000",
            "open more wc",
            "write 70000",
            "close",
            "unlink more",
            "use 0");

    /** The bytes that a restart reads of it behind the state. */
    private static final int UNREAD = 14_000_000 - 64;

    /** The calls before which a migration fails in every run of the tests. The rest is for a soak. */
    private static final List<Integer> STEPS = List.of(0, 1, 2, 4, 5, 8, IMAGE.size());

    private static final List<Integer> OTHER_STEPS = IntStream.rangeClosed(0, IMAGE.size())
            .boxed()
            .filter(step -> !STEPS.contains(step))
            .toList();

    @TempDir
    private Path directory;

    /** The ways in which a migration can fail. */
    private enum Break {
        CANCEL,
        RESTART,
        LINK
    }

    private record Began(
            String id, Cancellation cancellation, AtomicLong sentBytes, CompletableFuture<MigrationReport> report) {}

    private static Began begin(SourceService source, LedgerJob job, Keeping.KeepRequest keep) {
        return begin(source, job, job.checkpointer(), keep);
    }

    private static Began begin(
            SourceService source, LedgerJob job, Checkpointer checkpointer, Keeping.KeepRequest keep) {
        AtomicLong sentBytes = new AtomicLong();
        String id = UUID.randomUUID().toString();
        Cancellation cancellation = new Cancellation();
        return new Began(id, cancellation, sentBytes, CompletableFuture.supplyAsync(() -> {
            try {
                return source.migrate(
                        id,
                        new MigrationOrder(job.job(checkpointer, Map.of(), JobHooks.NONE), List.of(), "a test", keep),
                        cancellation,
                        progress -> sentBytes.set(progress.sentBytes()));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(e);
            }
        }));
    }

    private static MigrationReport rollsBack(Began migration, LedgerJob job) throws Exception {
        MigrationReport report = migration.report.get(WAIT_S, TimeUnit.SECONDS);
        assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
        job.runsHere();
        return report;
    }

    private static boolean isSealed(List<TransactionRecord> journal, String id) {
        return journal.stream()
                .anyMatch(record -> record instanceof TransactionRecord.Sealed
                        && record.migrationId().equals(id));
    }

    private LedgerJob job() throws Exception {
        LedgerJob.clear(directory.resolve("job"));
        return new LedgerJob(directory.resolve("job"), 1);
    }

    /** The checkpointer of every job of a test. The jobs share a directory, and run one after the other. */
    private Checkpointer checkpointer(String restart, boolean checkpointsHeldRanks) throws Exception {
        try (LedgerJob job = job()) {
            job.writesInProcess(0);
            return job.checkpointer(restart, checkpointsHeldRanks);
        }
    }

    /** The calls of an image, with a stop for the test before one of them, and a mark at the end. */
    private static String[] stoppedBefore(int step, LedgerJob job) {
        List<String> calls = new ArrayList<>(IMAGE);
        calls.addAll(step, List.of("touch " + job.mark("reached"), "await " + job.mark("go")));
        calls.add("touch " + job.mark("written"));
        return calls.toArray(String[]::new);
    }

    /** Returns true if the status reports that the service waits for checkpoints whose writes it discards. */
    private static boolean isGivenUp(SourceService source) {
        return source.open().stream()
                .map(OpenMigration::waitsFor)
                .anyMatch(waitsFor ->
                        waitsFor != null && waitsFor.contains("discarded") && waitsFor.contains("discard_deadline"));
    }

    // ---- every failure, at every step ------------------------------------------------------------------------------

    @Tag("soak")
    @ParameterizedTest
    @EnumSource(Break.class)
    void shouldGoOnWhenTheMigrationFailsAtAStepOfItsImage(Break cause) throws Exception {
        goesOnWhenItFailsAt(STEPS, cause);
    }

    @Tag("soak")
    @ParameterizedTest
    @EnumSource(Break.class)
    void shouldGoOnWhenTheMigrationFailsAtAnyOtherStepOfItsImage(Break cause) throws Exception {
        goesOnWhenItFailsAt(OTHER_STEPS, cause);
    }

    private void goesOnWhenItFailsAt(List<Integer> steps, Break cause) throws Exception {
        try (Nodes nodes = new Nodes(directory)) {
            nodes.plain();
            TargetService target = nodes.target("target", checkpointer("restart", true));
            try (Relay relay = new Relay(target.address().getPort())) {
                SourceService source = nodes.source(
                        "source",
                        LONG_PAUSE,
                        new InetSocketAddress(target.address().getAddress(), relay.port()));
                for (int step : steps) {
                    failsAt(step, cause, nodes, source, relay);
                    Conditions.until("the target has ended it, too", () -> target.migrations()
                            .isEmpty());
                }
                try (LedgerJob job = job()) {
                    job.writesInProcess(0, IMAGE.toArray(String[]::new));
                    job.restarts(0, "skim " + UNREAD, "eof");
                    MigrationReport report =
                            begin(source, job, Keeping.KeepRequest.NONE).report.get(WAIT_S, TimeUnit.SECONDS);
                    assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
                    job.runsThere();
                }
            }
        }
    }

    private void failsAt(int step, Break cause, Nodes nodes, SourceService source, Relay relay) throws Exception {
        try (LedgerJob job = job()) {
            job.writesInProcess(0, stoppedBefore(step, job));
            // One process of the restart reads, and another one may fail at the same time.
            Path reads = job.mark("reads");
            Files.write(reads, List.of("skim " + UNREAD, "eof"));
            job.restarts(0, "also " + reads, "await " + job.mark("fail"), "open missing r");
            Began migration = begin(source, job, Keeping.KeepRequest.NONE);
            job.awaitMark("reached");
            switch (cause) {
                case CANCEL -> assertTrue(migration.cancellation.cancel("a test has called it off"));
                case RESTART -> job.set("fail");
                case LINK -> relay.lose();
            }
            Conditions.until("it waits for the checkpointer, step " + step, () -> isGivenUp(source));
            job.set("go");
            MigrationReport report = rollsBack(migration, job);
            // The restart's other process reads data that has not arrived. It is ended all the same.
            assertFalse(report.reason().contains("does not end after SIGKILL"), report.reason());
            assertTrue(Files.exists(job.mark("written")), "every call has succeeded, step " + step);
            assertFalse(isSealed(nodes.journal("source"), migration.id), "nothing is sealed, step " + step);
        }
    }

    @Test
    void shouldGoOnWhenItIsCalledOffWhileAWriteStandsStill() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job()) {
            job.writesInProcess(0, IMAGE.toArray(String[]::new));
            job.restarts(0, "await " + job.mark("never"));
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            Began migration = begin(source, job, Keeping.KeepRequest.NONE);
            Conditions.until("the pools are full", () -> migration.sentBytes.get() > 2 << 20);
            migration.cancellation.cancel("a test has called it off");
            rollsBack(migration, job);
            assertFalse(isSealed(nodes.journal("source"), migration.id));
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhenTheImageDoesNotFitAndKeepNoCopyOfIt() throws Exception {
        Path copies = Files.createDirectory(directory.resolve("copies"));
        Files.setPosixFilePermissions(copies, PosixFilePermissions.fromString("rwx--x--x"));
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job()) {
            // The write is behind a gap, without staging, and the pool of 4 MiB has no space for it.
            job.writesInProcess(
                    0,
                    "descend 1m 12m 128k",
                    "fsync",
                    "fsize 13m",
                    "truncate 5m",
                    "fsize 5m",
                    "touch " + job.mark("written"));
            job.restarts(0, "await " + job.mark("never"));
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            Began migration = begin(source, job, Keeping.KeepRequest.in(copies));
            MigrationReport report = rollsBack(migration, job);
            assertTrue(report.reason().contains("does not fit the pool"), report.reason());
            assertTrue(Files.exists(job.mark("written")), "every call has succeeded");
            assertFalse(isSealed(nodes.journal("source"), migration.id), "an exit status of 0 seals nothing");
            assertFalse(report.copy().kept(), "an exit status of 0 completes no copy");
        }
    }

    /** Begins a migration and returns its id. Rank 1 waits in the middle of its calls until "go" is set. */
    private static String beginAndStopInTheMiddle(KillablePair pair, LedgerJob job) throws Exception {
        job.writesInProcess(0, "write 1m");
        job.writesInProcess(1, stoppedBefore(STEPS.get(STEPS.size() / 2), job));
        job.restarts(0, "skim 1m");
        job.restarts(1, "skim " + UNREAD);
        String id = pair.migrate();
        job.awaitMark("reached");
        return id;
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhenTheTargetIsKilledWhileItWrites() throws Exception {
        Path folder = Files.createDirectory(directory.resolve("pair"));
        try (KillablePair pair = new KillablePair(folder, true);
                LedgerJob job = pair.job()) {
            String id = beginAndStopInTheMiddle(pair, job);
            pair.service(KillablePair.TARGET).kill();
            Conditions.until("its status says for whom it waits", () -> {
                try (ControlClient client = new ControlClient(pair.socket(KillablePair.SOURCE))) {
                    return client.status().open().stream()
                            .anyMatch(open -> String.valueOf(open.waitsFor()).contains("discard_deadline"));
                }
            });
            job.set("go");
            // It ends what it has left of the copies.
            pair.start(KillablePair.TARGET);
            job.runsHere();
            pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Done.class);
            assertTrue(Files.exists(job.mark("written")), "every call has succeeded");
        }
    }

    /** The limit of docs/internals/services.md: the mount is gone, and with it the writer that aborts on that. */
    @Tag("soak")
    @Test
    void shouldBreakByNameAndKeepTheOtherRanksWhenTheSourceIsKilledWhileItWrites() throws Exception {
        Path folder = Files.createDirectory(directory.resolve("pair"));
        try (KillablePair pair = new KillablePair(folder, true);
                LedgerJob job = pair.job()) {
            String id = beginAndStopInTheMiddle(pair, job);
            Conditions.until("rank 0 has written its image and holds itself", () -> LedgerJob.isStopped(job.pid(0)));
            pair.service(KillablePair.SOURCE).kill();
            job.set("go");
            Conditions.until("the next call of rank 1 fails, and it aborts", () -> !job.originalLives(1));
            assertFalse(Files.exists(job.mark("written")), "no later call has succeeded");
            pair.start(KillablePair.SOURCE);
            pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Broken.class);
            Conditions.until("its status says so", () -> {
                try (ControlClient client = new ControlClient(pair.socket(KillablePair.SOURCE))) {
                    return client.status().open().stream()
                            .anyMatch(
                                    open -> open.id().equals(id) && open.phase().equals("BROKEN"));
                }
            });
            try (ControlClient client = new ControlClient(pair.socket(KillablePair.SOURCE))) {
                Resolution answer = client.resolve(id, ROLLBACK, true, Duration.ofSeconds(WAIT_S));
                assertEquals(Resolution.ResolutionResult.DONE, answer.result(), answer.text());
            }
            job.runsHere(0);
            assertFalse(job.originalLives(1));
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnWhenTheServiceEndsWhileItWrites() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = job()) {
            job.writesInProcess(0, stoppedBefore(2, job));
            job.restarts(0, "skim " + UNREAD);
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", LONG_PAUSE, target.address());
            Began migration = begin(source, job, Keeping.KeepRequest.NONE);
            job.awaitMark("reached");
            CompletableFuture<Void> end = CompletableFuture.runAsync(() -> {
                try {
                    source.close();
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
            Conditions.until("it waits for the checkpointer", () -> isGivenUp(source));
            job.set("go");
            end.get(WAIT_S, TimeUnit.SECONDS);
            rollsBack(migration, job);
            assertTrue(Files.exists(job.mark("written")), "every call has succeeded");
        }
    }

    // ---- what follows ----------------------------------------------------------------------------------------------

    @Test
    void shouldTakeTheNextSpareWhenItCannotBeWrittenWhileItIsHeld() throws Exception {
        try (Nodes nodes = new Nodes(directory)) {
            TargetService bad = nodes.target("bad", checkpointer("failing", false));
            TargetService good = nodes.target("good", checkpointer("restart", false));
            SourceService source = nodes.source("source", LONG_PAUSE, bad.address(), good.address());
            try (LedgerJob job = job()) {
                job.writesInProcess(0, stoppedBefore(2, job));
                job.restartsBy("failing", 0, "await " + job.mark("reached"), "open missing r");
                job.restarts(0, "skim " + UNREAD, "eof");
                Began migration = begin(source, job, job.checkpointer("restart", false), Keeping.KeepRequest.NONE);
                job.awaitMark("reached");
                Conditions.until("it waits for the checkpointer", () -> isGivenUp(source));
                job.set("go");
                MigrationReport report = migration.report.get(WAIT_S, TimeUnit.SECONDS);
                assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
                job.runsThere();
            }
        }
    }

    @Tag("soak")
    @Test
    void shouldEndACheckpointerThatDoesNotEndWhenTheTimeForItIsOver() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).countsAsWithin()) {
            String never = "await " + job.outside("never");
            job.rank(
                    List.of("open image wcx", "write 1m", never), List.of("open image r", "read 1m", "open missing r"));
            try (ServicePair pair = new ServicePair(
                    directory, ServicePair.Options.with(job.checkpointer()).discard(Duration.ofSeconds(1)))) {
                job.rollsBack(pair, "'open missing r'");
            }
        }
    }
}
