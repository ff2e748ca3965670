package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A target that puts the files of a job at their places, and stops at it: the job is stopped for its budget only. */
@Tag("soak")
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CarriedFilesPauseIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final JobUser USER = new JobUser(41_382, 41_382);

    @Test
    void shouldGoOnHereWhenItsFilesTakeLongerThanThePauseBudget() throws Exception {
        try (ScratchJob job =
                new ScratchJob("carried-files-pause", USER, 1, "[migration]\npause_budget = \"8s\"", "")) {
            TestNode there = job.nodes().b();
            job.asUser(job.nodes().a(), "mkdir -p scratch/a");
            job.asUser(there, "mkdir -p scratch/a");
            job.start(0, "scratch/a/out", "");
            Process stops = there.command(List.of("sh", "-c", "until pkill -STOP -f '[p]pmr-place'; do :; done"))
                    .start();
            CompletableFuture<String> migration = job.migrateLater();
            assertTrue(stops.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS), "no file was to be written");
            String said;
            try {
                said = migration.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
            } finally {
                there.run(LIMIT, "sh", "-c", "pkill -CONT -f '[p]pmr-place'; true");
            }
            assertTrue(said.contains("the pause budget"), said);
            job.requireTurns();
            job.clear();
        }
    }
}
