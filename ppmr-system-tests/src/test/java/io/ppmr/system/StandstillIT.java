package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A job that stands still: it does so for no longer than it must, somebody is told of it, and the report says it. */
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
            assertTrue(report.seconds() < 60, () -> "it took " + report.seconds() + " s");
        }
    }

    @Test
    void shouldMoveTheJobWhenARestartComputesForLongerThanTheStallLimit() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, and(RESTART, "work 9000"));
                ServicePair pair = pair(job)) {
            job.commits(pair);
        }
    }

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
        assertTrue(said.contains("the job has stood still for 1"), said);
        assertTrue(said.contains("step RESTART: 2097152 bytes written, 2097152 arrived, 2097152 read"), said);
    }

    @Test
    void shouldCountTheCheckpointersOwnStopWhenThePauseIsReported() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(List.of("stop", "open image wcx", "pause 3000", "write 2m", "close"), RESTART);
                ServicePair pair = pair(job)) {
            MigrationReport report = job.commits(pair);
            assertTrue(report.pauseSeconds() >= 2.5, () -> "a pause of " + report.pauseSeconds() + " s");
        }
    }

    @Test
    void shouldRollBackByNameWhenAMessageHasATextThatIsTooLong() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                ServicePair pair = pair(job)) {
            MigrationReport report = job.migrateBy(pair, called("x".repeat(70_000), job.checkpointer()));
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            assertTrue(report.reason().contains("a text of 70000 bytes"), report.reason());
            job.commits(pair);
        }
    }

    /** A checkpointer of another name. */
    private static Checkpointer called(String name, Checkpointer checkpointer) {
        return (Checkpointer) Proxy.newProxyInstance(
                Checkpointer.class.getClassLoader(),
                new Class<?>[] {Checkpointer.class},
                (proxy, method, arguments) -> {
                    try {
                        return method.getName().equals("name") ? name : method.invoke(checkpointer, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }
}
