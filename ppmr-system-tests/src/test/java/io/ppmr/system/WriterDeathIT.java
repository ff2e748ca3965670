package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tests events that look like the end of a file and are none. FUSE sends FLUSH and RELEASE for dead processes as for
 * living ones.
 */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WriterDeathIT {
    private static final Logger LOG = LoggerFactory.getLogger(WriterDeathIT.class);
    private static final int EIO = 5;

    @TempDir
    private Path directory;

    private ServicePair pair(ReplayJob job) throws Exception {
        return new ServicePair(
                directory, ServicePair.Options.with(job.checkpointer()).stall(Patience.of(Duration.ofSeconds(6))));
    }

    @Tag("soak")
    @Test
    void shouldAnswerItsReaderWithEioWhenAWriterIsKilledBetweenTwoWrites() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)) {
            String opened = job.outside("opened").toString();
            // The restart itself is killed with its migration, so another process of the job's user is the witness.
            job.rank(
                    List.of("open image wcx", "write 1m", "await " + opened, "write 1m", "die", "write 1m", "close"),
                    List.of("await " + job.outside("never")));
            try (ServicePair pair = pair(job)) {
                CompletableFuture<String> reader = CompletableFuture.supplyAsync(() -> readUntilFailure(job, opened))
                        .whenComplete((said, failure) -> LOG.info("the reader has ended: {}", said, failure));
                job.rollsBack(pair, "rank 0", "could not be checkpointed", "exit status 137");
                assertEquals("", reader.get(Patience.of(60), TimeUnit.SECONDS));
            }
        }
    }

    private String readUntilFailure(ReplayJob job, String opened) {
        try {
            Path rank = Conditions.get(() -> ServicePair.rankDirectory(directory.resolve("target"), 0));
            // The folder exists before the file. The target receives the file's message later.
            Conditions.until("the image is there", () -> Files.exists(rank.resolve("image")));
            return job.replayAs(
                    ReplayJob.USER.uid(),
                    rank,
                    "open image r",
                    "read 1m",
                    "touch " + opened,
                    "read 1m",
                    "fails " + EIO + " read 1",
                    "fails " + EIO + " pread 0 100");
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void shouldReadOnWhenAForkedChildOfTheWriterEnds() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)) {
            String half = job.outside("half").toString();
            job.rank(
                    List.of(
                            "open image wcx",
                            "write 1m",
                            "forkexit",
                            "await " + half,
                            "pause 300",
                            "forkexit",
                            "pause 300",
                            "write 1000001",
                            "forkexit",
                            "close"),
                    List.of("open image r", "read 1m", "touch " + half, "read 1000001", "eof"));
            try (ServicePair pair = pair(job)) {
                job.commits(pair);
            }
        }
    }

    @Tag("soak")
    @Test
    void shouldReadOnWhenAFileIsClosedAndOpenedAgain() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)) {
            String half = job.outside("half").toString();
            job.rank(
                    List.of(
                            "open image wcx",
                            "write 1m",
                            "close",
                            "await " + half,
                            "pause 300",
                            "open image w",
                            "pwrite 1m 1m",
                            "close"),
                    List.of("open image r", "read 1m", "touch " + half, "read 1m", "eof"));
            try (ServicePair pair = pair(job)) {
                job.commits(pair);
            }
        }
    }

    @Test
    void shouldRollBackWhenTheCheckpointerReportsFailure() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write 3m", "close", "open missing r"),
                                List.of("open image r", "read 3m", "eof"))
                        .rank(List.of("open image wcx", "write 3m", "close"), List.of("open image r", "read 3m"));
                ServicePair pair = pair(job)) {
            job.rollsBack(pair, "rank 0", "could not be checkpointed", "'open missing r'");
        }
    }

    @Test
    void shouldRollBackWhenARestartReportsFailure() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(List.of("open image wcx", "write 3m", "close"), List.of("open image r", "read 3m"))
                        .rank(
                                List.of("open image wcx", "write 3m", "close"),
                                List.of("open image r", "read 1m", "open missing r"));
                ServicePair pair = pair(job)) {
            job.rollsBack(pair, "rank 1", "could not be restarted", "'open missing r'");
        }
    }
}
