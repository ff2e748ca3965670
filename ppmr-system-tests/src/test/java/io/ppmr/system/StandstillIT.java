package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A job that is stopped no longer than necessary. An observer is notified of the stop, and the report contains it. */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class StandstillIT {
    private static final List<String> CHECKPOINT = List.of("open image wcx", "write 2m", "close");
    private static final List<String> RESTART = List.of("open image r", "read 2m", "eof");
    private static final Duration STALL_LIMIT = Duration.ofSeconds(4);

    @TempDir
    private Path directory;

    private ServicePair pair(ReplayJob job) throws Exception {
        return new ServicePair(
                directory, ServicePair.Options.with(job.checkpointer()).stall(STALL_LIMIT));
    }

    private static List<String> and(List<String> calls, String... more) {
        List<String> all = new ArrayList<>(calls);
        all.addAll(List.of(more));
        return all;
    }

    @Test
    void shouldRollBackByNameWhenARestartStandsStillWithAllBytesRead() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(CHECKPOINT, RESTART)
                        .rank(CHECKPOINT, and(RESTART, "pause 600000"));
                ServicePair pair = pair(job)) {
            MigrationReport report = job.migrate(pair);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            assertTrue(
                    report.reason().contains("the restarts of ranks [1] have read nothing, computed nothing")
                            && report.reason().contains("stall_limit"),
                    report.reason());
            assertTrue(
                    report.times().seconds() < 60,
                    () -> "it took " + report.times().seconds() + " s");
        }
    }

    @Tag("soak")
    @Test
    void shouldMoveTheJobWhenARestartComputesForLongerThanTheStallLimit() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, and(RESTART, "work 9000"));
                ServicePair pair = pair(job)) {
            job.commits(pair);
        }
    }

    @Tag("soak")
    @Test
    void shouldSayWhatItWaitsForWhenAJobStandsStillForLongerThanTenSeconds() throws Exception {
        PrintStream ordinary = System.err;
        ByteArrayOutputStream log = new ByteArrayOutputStream();
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, and(RESTART, "work 13000"));
                ServicePair pair = pair(job)) {
            System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
            job.commits(pair);
        } finally {
            System.setErr(ordinary);
        }
        String said = log.toString(StandardCharsets.UTF_8);
        assertTrue(said.contains("the job has been stopped for 1"), said);
        assertTrue(said.contains("step RESTART: 2097152 bytes written, 2097152 arrived, 2097152 read"), said);
    }

    /** The migration's own thread waits for the hook. */
    @Tag("soak")
    @Test
    void shouldSayThatAJobStandsStillWhenItsSuspendHookTakesLong() throws Exception {
        PrintStream ordinary = System.err;
        ByteArrayOutputStream log = new ByteArrayOutputStream();
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                ServicePair pair = new ServicePair(
                        directory, ServicePair.Options.with(job.checkpointer()).stall(Duration.ofMinutes(1)))) {
            Path goOn = job.outside("go-on");
            SiteCommand hook = new SiteCommand(
                    "suspend",
                    List.of("sh", "-c", "until [ -e " + goOn + " ]; do sleep 0.1; done"),
                    Optional.of(ReplayJob.USER),
                    Duration.ofMinutes(1));
            System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
            CompletableFuture<MigrationReport> migration = CompletableFuture.supplyAsync(() -> {
                try {
                    return job.migrateWith(pair, new JobHooks(Optional.of(hook), Optional.empty(), Optional.empty()));
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            Conditions.until("it is said while the hook runs", () -> log.toString(StandardCharsets.UTF_8)
                    .contains("the job has been stopped for 10 s, step SUSPEND"));
            assertFalse(migration.isDone());
            Files.createFile(goOn);
            MigrationReport report = migration.get(Patience.of(60), TimeUnit.SECONDS);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        } finally {
            System.setErr(ordinary);
        }
    }

    @Tag("soak")
    @Test
    void shouldCountTheCheckpointersOwnStopWhenThePauseIsReported() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(List.of("stop", "open image wcx", "pause 3000", "write 2m", "close"), RESTART);
                ServicePair pair = pair(job)) {
            MigrationReport report = job.commits(pair);
            assertTrue(
                    report.times().pauseSeconds() >= 2.5,
                    () -> "a pause of " + report.times().pauseSeconds() + " s");
        }
    }

    @Tag("soak")
    @Test
    void shouldRollBackByNameWhenAMessageHasATextThatIsTooLong() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                ServicePair pair = pair(job)) {
            MigrationReport report = job.migrateBy(pair, called("x".repeat(70_000), job.checkpointer()));
            assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
            assertTrue(report.reason().contains("a text of 70000 bytes"), report.reason());
            job.commits(pair);
        }
    }

    /** The first of these calls is made at the start of the attempt, the second in a step, the third at the failure. */
    @ParameterizedTest
    @ValueSource(strings = {"1", "2", "2 3"})
    void shouldRollBackByNameAndServeOnWhenTheServiceHasADefect(String calls) throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                ServicePair pair = pair(job)) {
            Set<String> bad = Set.of(calls.split(" "));
            AtomicInteger count = new AtomicInteger();
            Checkpointer defective = changed(job.checkpointer(), (method, right) -> {
                if (method.equals("writesInProcess") && bad.contains(String.valueOf(count.incrementAndGet()))) {
                    throw new IllegalStateException("a defect for a test");
                }
                return right.call();
            });
            MigrationReport report = job.migrateBy(pair, defective);
            assertFalse(report.moved(), report.reason());
            assertTrue(report.reason().contains("a defect of this service: "), report.reason());
            assertTrue(report.reason().contains("a defect for a test"), report.reason());
            assertTrue(count.get() >= bad.size(), "the defect was not met");
            assertTrue(job.originalsRun());
            job.commits(pair);
        }
    }

    /** A checkpointer of another name. */
    private static Checkpointer called(String name, Checkpointer checkpointer) {
        return changed(checkpointer, (method, right) -> method.equals("name") ? name : right.call());
    }

    private interface Change {
        Object answer(String method, Callable<Object> right) throws Exception;
    }

    /** A checkpointer that answers otherwise. */
    private static Checkpointer changed(Checkpointer checkpointer, Change change) {
        return (Checkpointer) Proxy.newProxyInstance(
                Checkpointer.class.getClassLoader(),
                new Class<?>[] {Checkpointer.class},
                (proxy, method, arguments) -> {
                    try {
                        return change.answer(method.getName(), () -> method.invoke(checkpointer, arguments));
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }
}
