package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One job is moved to and fro, in turn over a network that delays and over the same one without a delay. Many requests
 * are under way, so that a delay costs little for every shape of the memory.
 */
@Tag("soak")
@Tag("alone")
class StreamedDelayIT {
    private static final Logger LOG = LoggerFactory.getLogger(StreamedDelayIT.class);
    private static final long BYTES = 256 << 20;
    private static final int MOVES = 5;
    private static final double MOST_TIMES = 1.3;

    @TempDir
    private Path directory;

    /** A pair of services whose source connects to the delayed link to its target. */
    private static final class Way implements AutoCloseable {
        private final Checkpointer criu = CriuJob.criu(PagePolicy.AUTO);
        private final DelayedLink link;
        private final ServicePair pair;
        private final double[] seconds = new double[MOVES];

        Way(Path folder, Duration delay) throws Exception {
            link = new DelayedLink(delay);
            pair = new ServicePair(
                    Files.createDirectory(folder),
                    ServicePair.Options.with(criu).alsoRootsJobs().staging(1 << 30),
                    List.of(link.address()));
            link.leadTo(pair.target().address());
        }

        /** Moves the job whose root is this process, and returns the PID of the copy's. */
        int move(CriuJob job, int pid, int number) throws Exception {
            long startNs = System.nanoTime();
            MigrationReport report = job.migrate(pair, criu, pid, "move-" + number, new Cancellation());
            seconds[number] = (System.nanoTime() - startNs) / 1e9;
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(link.hasCarried(report.images().bytes()), "the move went over the link");
            LOG.info("{}: {} s, {}", link.address(), seconds[number], report.pages());
            return report.ranks().get(0).pids().get(0);
        }

        double median() {
            double[] sorted = seconds.clone();
            Arrays.sort(sorted);
            return sorted[MOVES / 2];
        }

        @Override
        public void close() throws Exception {
            try (link) {
                pair.close();
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"contiguous", "fragmented", "shared", "forked"})
    @Timeout(value = 900, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldTakeLittleLongerWhenTheNetworkDelaysByAMillisecond(String shape) throws Exception {
        String program = System.getProperty("ppmr.demo.dir") + "/shaped-job";
        try (Way delayed = new Way(directory.resolve("delayed"), Duration.ofMillis(1));
                Way direct = new Way(directory.resolve("direct"), Duration.ZERO);
                CriuJob job = CriuJob.start(
                        directory,
                        "setsid " + program + " --shape " + shape + " --size " + BYTES
                                + " --passes 1000000 --seed 3 --pace 100 --out out --progress turns")) {
            Conditions.until(Duration.ofSeconds(60), "the job computes", () -> Files.exists(job.file("turns")));
            int pid = job.pid();
            for (int i = 0; i < MOVES; i++) {
                pid = direct.move(job, pid, i);
                pid = delayed.move(job, pid, i);
            }
            job.requireTurns();
            double times = delayed.median() / direct.median();
            LOG.info("{}: with a delay {} s, without {} s: {}", shape, delayed.median(), direct.median(), times);
            assertTrue(times <= MOST_TIMES, shape + ": " + times + " times the move without a delay");
        }
    }
}
