package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Reads {@code df} and {@code du} of both mounts while an image passes. */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MountFiguresIT {
    private static final long MIB = 1 << 20;
    private static final long IMAGE_BYTES = 3 * MIB;
    private static final long POOL_BYTES = 8 * MIB;
    private static final long STAGING_BYTES = 64 * MIB;
    /** The first bytes of a file lie in neither pool nor staging. */
    private static final long HEAD_BYTES = 4096;

    private static final int PLACES = 2;
    private static final long NOMINAL_FREE_BYTES = 1L << 52;

    @TempDir
    private Path directory;

    /** Figures of {@code df} in bytes. */
    private record Room(long size, long used, long available) {}

    private static String run(String... command) throws Exception {
        Command.CommandResult result = Command.of(List.of(command)).run(Duration.ofSeconds(20));
        assertTrue(result.succeeded(), result.describe());
        return result.output();
    }

    private static Room df(Path mount) throws Exception {
        String[] figures = run("df", "-B1", "--output=size,used,avail", mount.toString())
                .lines()
                .reduce((first, last) -> last)
                .orElseThrow()
                .strip()
                .split("\\s+", -1);
        return new Room(Long.parseLong(figures[0]), Long.parseLong(figures[1]), Long.parseLong(figures[2]));
    }

    private static long du(Path mount) throws Exception {
        return Long.parseLong(run("du", "-s", "-B1", mount.toString()).split("\\s+", -1)[0]);
    }

    @Test
    void shouldTellWhatIsThereAndWhatIsFreeWhileAnImagePasses() throws Exception {
        Path source = directory.resolve("source");
        Path target = directory.resolve("target");
        try (ReplayJob job = new ReplayJob(directory)) {
            Path written = job.outside("written");
            Path looked = job.outside("looked");
            job.retained()
                    .rank(
                            List.of("open image wcx", "write 3m", "touch " + written, "await " + looked, "close"),
                            List.of("open image r", "read 3m", "eof"));
            try (ServicePair pair = new ServicePair(
                    directory, ServicePair.Options.with(job.checkpointer()).staging(STAGING_BYTES))) {
                assertEquals(new Room(NOMINAL_FREE_BYTES, 0, NOMINAL_FREE_BYTES), df(source));
                long total = PLACES * (POOL_BYTES + STAGING_BYTES);
                Room empty = df(target);
                assertEquals(0, empty.used(), empty.toString());
                assertTrue(empty.size() >= total && empty.size() <= 2 * total, empty.toString());
                CompletableFuture<MigrationReport> moved = CompletableFuture.supplyAsync(() -> {
                    try {
                        return job.migrate(pair);
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                });
                Conditions.until("the image is written", () -> Files.exists(written));
                assertEquals(new Room(NOMINAL_FREE_BYTES + IMAGE_BYTES, IMAGE_BYTES, NOMINAL_FREE_BYTES), df(source));
                assertEquals(IMAGE_BYTES, du(source));
                Conditions.until(
                        "the image is here",
                        () -> df(target).used() >= IMAGE_BYTES - HEAD_BYTES && du(target) == IMAGE_BYTES);
                Room full = df(target);
                assertEquals(empty.size(), full.size());
                assertEquals(full.size(), full.used() + full.available());
                Files.createFile(looked);
                assertEquals(
                        Outcome.COMMITTED, moved.get().outcome(), moved.get().reason());
                Conditions.until("all is free again", () -> df(target).equals(empty));
                assertEquals(new Room(NOMINAL_FREE_BYTES, 0, NOMINAL_FREE_BYTES), df(source));
            }
        }
    }
}
