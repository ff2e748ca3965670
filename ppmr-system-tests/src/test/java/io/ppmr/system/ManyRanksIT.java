package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.linux.Command;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.ProcessFigures;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Jobs of many ranks, which all move in one migration. Tests that they do, and that commands which wait for each other
 * do not delay each other's start. Measures the processor time of a rank.
 */
class ManyRanksIT {
    private static final Logger LOG = LoggerFactory.getLogger(ManyRanksIT.class);

    /** Of both services, and of the launchers and commands that they have waited for, for each rank. */
    private static final double MOST_SECONDS_A_RANK = 0.020;

    /**
     * A rank costs about as much as forty to fifty starts of a small program. Where a start costs ten times the usual,
     * as in some virtual machines, so does a rank.
     */
    private static final int MOST_STARTS_A_RANK = 60;

    private static final int STARTS = 100;

    /** The time in which both services compile and load in their first migration, however many its ranks, when busy. */
    private static final double MOST_SECONDS_ONCE = 6;

    @TempDir
    private Path directory;

    /** Returns the processor time in which this machine starts a program that does nothing. */
    private static double cpuSecondsAStart() throws IOException, InterruptedException {
        Command.CommandResult result = Command.of(List.of(
                        "sh", "-c", "i=0; while [ $i -lt " + STARTS + " ]; do /bin/true; i=$((i+1)); done; times"))
                .run(Duration.ofSeconds(30));
        assertTrue(result.succeeded(), result.output());
        double seconds = 0;
        Matcher times = Pattern.compile("(\\d+)m([0-9.]+)s").matcher(result.output());
        while (times.find()) {
            seconds += 60 * Integer.parseInt(times.group(1)) + Double.parseDouble(times.group(2));
        }
        return seconds / STARTS;
    }

    /** The processor time that the two services and their commands have used so far. */
    private static double cpuSeconds(Process source, Process target) throws IOException {
        double seconds = 0;
        for (Process service : List.of(source, target)) {
            ProcessFigures figures = ProcessFigures.of(service.pid());
            seconds += figures.cpuSeconds() + figures.commandsCpuSeconds();
        }
        return seconds;
    }

    private static String logs(RealServices services) {
        try {
            return services.log("migrate") + services.log("source") + services.log("target");
        } catch (IOException e) {
            return e.toString();
        }
    }

    private void moves(int ranks) throws Exception {
        try (ReplayJob job = new ReplayJob(directory);
                RealServices services = new RealServices(directory)) {
            for (int rank = 0; rank < ranks; rank++) {
                job.rank(List.of("open image wcx", "write 20k", "close"), List.of("open image r", "read 20k", "close"));
            }
            Process target = services.startTarget(job);
            Process source = services.startSource(job);
            Path report = directory.resolve("report.json");
            double before = cpuSeconds(source, target);
            int exitCode = services.migrate(report);
            double used = cpuSeconds(source, target) - before;
            LOG.info("{} ranks: {} s of processor time, {} ms a rank", ranks, used, used * 1000 / ranks);
            assertEquals(0, exitCode, () -> logs(services));
            assertTrue(job.originalsAreGone(), "an original is left");
            List<Integer> copies = new ArrayList<>();
            for (JsonNode pids : new ObjectMapper().readTree(report.toFile()).findValues("pids")) {
                pids.forEach(pid -> copies.add(pid.asInt()));
            }
            assertEquals(ranks, copies.size(), "one process a rank");
            for (int copy : copies) {
                assertTrue(Files.exists(Path.of("/proc", Integer.toString(copy))), "copy " + copy + " is gone");
            }
            double start = cpuSecondsAStart();
            LOG.info("a program's start: {} ms of processor time", start * 1000);
            double most = MOST_SECONDS_ONCE + Math.max(MOST_SECONDS_A_RANK, MOST_STARTS_A_RANK * start) * ranks;
            assertTrue(used <= most, used + " s of processor time, at most " + most + " are wanted");
        }
    }

    @Tag("soak")
    @Test
    @Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldCostLittleForEachRankWhenTwoHundredMoveAtOnce() throws Exception {
        moves(200);
    }

    @Test
    @Tag("soak")
    @Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldCostLittleForEachRankWhenAThousandMoveAtOnce() throws Exception {
        moves(1000);
    }

    /** Each checkpoint, and each restart, continues only when every other one of its kind has been started. */
    @Tag("soak")
    @Test
    @Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldMoveRanksWhoseCommandsWaitUntilAllAreStarted() throws Exception {
        int ranks = 40;
        try (ReplayJob job = new ReplayJob(directory)) {
            for (int rank = 0; rank < ranks; rank++) {
                List<String> checkpoint = new ArrayList<>(List.of("touch " + job.outside("checkpoints." + rank)));
                List<String> restart = new ArrayList<>(List.of("touch " + job.outside("restarts." + rank)));
                for (int other = 0; other < ranks; other++) {
                    checkpoint.add("await " + job.outside("checkpoints." + other));
                    restart.add("await " + job.outside("restarts." + other));
                }
                checkpoint.addAll(List.of("open image wcx", "write 20k", "close"));
                restart.addAll(List.of("open image r", "read 20k", "close"));
                job.rank(checkpoint, restart);
            }
            try (ServicePair pair = new ServicePair(directory, ServicePair.Options.with(job.checkpointer()))) {
                job.commits(pair);
            }
        }
    }

    /** The target receives the places of all ranks of a job, of which here one moves. */
    @Tag("soak")
    @Test
    @Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldMoveARankOfAJobWhosePlacesFillManyFramesAndRefuseOneThatHasTooMany() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write 20k", "close"),
                                List.of("open image r", "read 20k", "close"));
                ServicePair pair = new ServicePair(directory, ServicePair.Options.with(job.checkpointer()))) {
            MigrationReport refused = job.migrateWith(pair, 16_384);
            assertEquals(MigrationReport.Outcome.REFUSED, refused.outcome());
            assertTrue(refused.reason().contains("job replay has 16385 ranks"), refused.reason());
            assertTrue(job.originalsRun(), "nothing is done to a job that is refused");
            MigrationReport report = job.migrateWith(pair, 16_383);
            assertEquals(MigrationReport.Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(job.copiesRun(), "the copy does not run");
        }
    }
}
