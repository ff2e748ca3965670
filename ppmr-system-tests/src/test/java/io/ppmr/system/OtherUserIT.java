package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The image of an ordinary user's job: no other process can read or write it, on either side. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class OtherUserIT {
    private static final int STRANGER = 20_002;
    private static final int EACCES = 13;

    @TempDir
    private Path directory;

    @Test
    void shouldRefuseAnotherUserWhileAnImageIsWrittenAndRead() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)) {
            Path written = job.outside("written");
            Path goOn = job.outside("go-on");
            job.rank(
                    List.of(
                            "open image wcx",
                            "write 300000",
                            "chmod 0666 image",
                            "fsync",
                            "touch " + written,
                            "await " + goOn,
                            "close"),
                    List.of("await " + goOn, "open image r", "read 300000", "eof"));
            try (ServicePair pair = new ServicePair(directory, ServicePair.Options.with(job.checkpointer()))) {
                CompletableFuture<MigrationReport> migration = CompletableFuture.supplyAsync(() -> {
                    try {
                        return job.commits(pair);
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                });
                Conditions.get(() -> Files.exists(written) ? written : null);
                Path source = ServicePair.rankDirectory(directory.resolve("source"), 0);
                Path target = ServicePair.rankDirectory(directory.resolve("target"), 0);
                for (Path rank : List.of(source, target)) {
                    assertEquals("", job.replayAs(STRANGER, Path.of("/"), refusals(rank)), "at " + rank);
                    assertEquals("", job.replayAs(ReplayJob.USER.uid(), rank, "list .", "size image 300000"));
                }
                assertEquals("", job.replayAs(ReplayJob.USER.uid(), target, "open image r", "read 4096", "close"));
                assertEquals("", job.replayAs(ReplayJob.USER.uid(), source, "open mine wcx", "write 10", "close"));
                Files.createFile(goOn);
                migration.get(Patience.of(60), TimeUnit.SECONDS);
            }
        }
    }

    private static String[] refusals(Path rank) {
        String refused = "fails " + EACCES + " ";
        return new String[] {
            refused + "list " + rank,
            refused + "list " + rank.getParent(),
            refused + "exists " + rank + "/image",
            refused + "open " + rank + "/image r",
            refused + "open " + rank + "/image w",
            refused + "open " + rank + "/new wcx",
            refused + "unlink " + rank + "/image",
            refused + "rename " + rank + "/image " + rank + "/other",
            refused + "mkdir " + rank.getParent() + "/rank-9",
            refused + "mkdir " + rank.getParent().getParent() + "/new"
        };
    }
}
