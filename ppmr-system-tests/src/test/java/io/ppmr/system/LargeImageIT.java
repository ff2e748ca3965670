package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.migration.source.MigrationReport;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Files in which an offset does not fit 32 bits. */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class LargeImageIT {
    private static final long FOUR_GIB = 4L << 30;

    @TempDir
    private Path directory;

    private ServicePair pair(ReplayJob job, long stagingBytes) throws Exception {
        return new ServicePair(
                directory,
                ServicePair.Options.with(job.checkpointer())
                        .staging(stagingBytes)
                        .stall(Duration.ofSeconds(10)));
    }

    @Test
    void shouldRetainBytesBeyondFourGibWhenThereIsAHoleBeforeThem() throws Exception {
        long far = FOUR_GIB + 123_456_789;
        try (ReplayJob job = new ReplayJob(directory)
                        .retained()
                        .rank(
                                List.of(
                                        "open image wcx",
                                        "write 1m",
                                        "pwrite " + (FOUR_GIB - 65_536) + " 131072",
                                        "pwrite " + far + " 1m",
                                        "fsize " + (far + (1 << 20)),
                                        "close"),
                                List.of(
                                        "open image r",
                                        "pread " + far + " 1m",
                                        "pread " + (FOUR_GIB - 65_536) + " 131072",
                                        "zeros " + (FOUR_GIB + 65_536) + " 8m",
                                        "zeros 1048576 1m",
                                        "pread 0 1m",
                                        "fsize " + (far + (1 << 20))));
                ServicePair pair = pair(job, 64 << 20)) {
            job.commits(pair);
        }
    }

    @Test
    void shouldStreamBytesBeyondFourGibWhenThereIsAHoleBeforeThem() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write 1m", "pwrite " + (FOUR_GIB - 65_536) + " 2m", "close"),
                                List.of(
                                        "open image r",
                                        "read 1m",
                                        "seek " + (FOUR_GIB - 131_072),
                                        "blank 65536",
                                        "read 2m",
                                        "eof"));
                ServicePair pair = pair(job, 0)) {
            job.commits(pair);
        }
    }

    @Test
    void shouldStreamAFileOfMoreThanFourGib() throws Exception {
        long bytes = FOUR_GIB + (300 << 20) + 77;
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcxn", "write " + bytes + " 64m", "fsync", "close"),
                                List.of("open image r", "read " + bytes + " 1m", "eof"));
                ServicePair pair = pair(job, 0)) {
            MigrationReport report = job.commits(pair);
            assertEquals(bytes, report.images().bytes());
            assertEquals(0, report.images().stagedBytes());
            System.out.printf(
                    "figure: %d bytes in one file streamed in %.1f s%n",
                    bytes, report.times().seconds());
        }
    }
}
