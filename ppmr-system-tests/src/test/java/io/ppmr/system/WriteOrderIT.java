package io.ppmr.system;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Files that are not written from front to back in large pieces. */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WriteOrderIT {
    private static final String ANY_CONTENTS = "seed 3";

    @TempDir
    private Path directory;

    private ReplayJob job(boolean retained) throws Exception {
        ReplayJob job = new ReplayJob(directory);
        return retained ? job.retained() : job;
    }

    private ServicePair pair(ReplayJob job, int poolMib, long stagingMib) throws Exception {
        return new ServicePair(
                directory,
                ServicePair.Options.with(job.checkpointer())
                        .pool(poolMib * 8, 128 << 10)
                        .staging(stagingMib << 20)
                        .stall(Duration.ofSeconds(6)));
    }

    @ParameterizedTest(name = "retained {0}, pool {1} MiB, staging {2} MiB, blocks of {3}")
    @CsvSource({
        "true, 8, 64, 128k",
        "true, 8, 64, 100000",
        "true, 8, 16, 4k",
        "false, 24, 0, 128k",
        "false, 8, 64, 50000"
    })
    void shouldMoveARankWhenItsFileIsWrittenInDescendingOrder(
            boolean retained, int poolMib, long stagingMib, String block) throws Exception {
        try (ReplayJob job = job(retained)
                        .rank(
                                List.of("open image wcx", "descend 0 16m " + block, "close"),
                                List.of("open image r", "read 16m 70000", "eof"));
                ServicePair pair = pair(job, poolMib, stagingMib)) {
            job.commits(pair);
        }
    }

    @ParameterizedTest(name = "retained {0}")
    @ValueSource(booleans = {true, false})
    void shouldFailByNameWhenAFileIsWrittenInDescendingOrderAndCannotBeKept(boolean retained) throws Exception {
        try (ReplayJob job = job(retained)
                        .rank(
                                List.of("open image wcx", "descend 0 16m 128k", "close"),
                                List.of("open image r", "read 16m"));
                ServicePair pair = pair(job, 8, retained ? 8 : 0)) {
            String remedy = retained ? "raise staging.limit" : "raise pool.size or staging.limit";
            job.rollsBack(pair, "/image", "its image does not fit", remedy);
        }
    }

    @Tag("soak")
    @ParameterizedTest(name = "retained {0}")
    @ValueSource(booleans = {false})
    void shouldMoveARankWhenItsFileIsWrittenAndReadByteByByte(boolean retained) throws Exception {
        try (ReplayJob job = job(retained)
                        .rank(
                                List.of("open image wcx", "write 150001 1", "close"),
                                List.of("open image r", "read 150001 1", "eof"));
                ServicePair pair = pair(job, 8, 1)) {
            job.commits(pair);
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest(name = "retained {0}")
    @ValueSource(booleans = {true})
    void shouldMoveARankWhenItsFileIsWrittenAndReadByteByByteAsWell(boolean retained) throws Exception {
        shouldMoveARankWhenItsFileIsWrittenAndReadByteByByte(retained);
    }

    @ParameterizedTest(name = "retained {0}, staging {1} MiB, blocks of {2}, order {3}")
    @CsvSource({
        "true, 64, 5000, 1",
        "true, 64, 128k, 2",
        "true, 16, 4k, 3",
        "false, 64, 5000, 4",
        "false, 64, 128k, 5",
        "false, 64, 64k, 6"
    })
    void shouldMoveARankWhenItsFileIsWrittenInRandomOrder(boolean retained, long stagingMib, String block, int order)
            throws Exception {
        String length = "16m";
        try (ReplayJob job = job(retained)
                        .rank(
                                List.of("open image wcx", "scatter 0 " + length + " " + block + " " + order, "close"),
                                List.of("open image r", "read " + length + " 70000", "eof"));
                ServicePair pair = pair(job, 8, stagingMib)) {
            job.commits(pair);
        }
    }

    @Test
    void shouldGiveTheNewBytesWhenARetainedFileIsWrittenTwice() throws Exception {
        try (ReplayJob job = job(true)
                        .completes("image")
                        .rank(
                                List.of(
                                        ANY_CONTENTS,
                                        "open image wcx",
                                        "write 1m",
                                        "seed 4",
                                        "pwrite 0 6000",
                                        "pwrite 300000 70001 4097",
                                        "pwrite 1000000 100000",
                                        "close"),
                                List.of(
                                        "seed 4",
                                        "open image r",
                                        "pread 0 6000",
                                        "pread 300000 70001",
                                        "pread 1000000 100000",
                                        ANY_CONTENTS,
                                        "pread 6000 294000",
                                        "pread 370001 629999",
                                        "fsize 1100000"));
                ServicePair pair = pair(job, 8, 16)) {
            job.commits(pair);
        }
    }

    @Test
    void shouldGiveTheNewHeaderWhenAStreamedFileIsWrittenTwiceBeforeItIsRead() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)) {
            String written = "" + job.outside("written");
            job.rank(
                    List.of(
                            ANY_CONTENTS,
                            "open image wcx",
                            "write 1m",
                            "seed 4",
                            "pwrite 0 4096",
                            "fsync",
                            "touch " + written,
                            "close"),
                    List.of(
                            "await " + written,
                            "open image r",
                            "seed 4",
                            "read 4096",
                            ANY_CONTENTS,
                            "read 1044480",
                            "eof"));
            try (ServicePair pair = pair(job, 8, 0)) {
                job.commits(pair);
            }
        }
    }

    /** The writer returns to {@code rewrite} when the reader has read 1 MiB. */
    private ReplayJob rewrittenBehindTheReader(ReplayJob job, String... rewrite) throws Exception {
        String read = "" + job.outside("read");
        List<String> checkpoint =
                new ArrayList<>(List.of(ANY_CONTENTS, "open image wcx", "write 2m", "fsync", "await " + read));
        checkpoint.addAll(List.of(rewrite));
        checkpoint.add("close");
        return job.rank(
                checkpoint, List.of(ANY_CONTENTS, "open image r", "read 1m", "touch " + read, "read 1m", "eof"));
    }

    @Test
    void shouldMoveARankWhenItsStreamedHeaderIsWrittenAgainAsItWas() throws Exception {
        try (ReplayJob job = rewrittenBehindTheReader(new ReplayJob(directory), "pwrite 0 4096", "pwrite 100 7");
                ServicePair pair = pair(job, 8, 0)) {
            job.commits(pair);
        }
    }

    @Test
    void shouldFailByNameWhenAStreamedHeaderIsChangedBehindItsReader() throws Exception {
        try (ReplayJob job = rewrittenBehindTheReader(new ReplayJob(directory), "seed 4", "pwrite 0 64");
                ServicePair pair = pair(job, 8, 0)) {
            job.rollsBack(pair, "/image", "were changed after a restart had read them", "retained");
        }
    }

    @Test
    void shouldFailByNameWhenStreamedBytesAreWrittenBehindTheirReader() throws Exception {
        try (ReplayJob job = rewrittenBehindTheReader(new ReplayJob(directory), "pwrite 200000 4096");
                ServicePair pair = pair(job, 8, 0)) {
            job.rollsBack(pair, "/image", "written again after a restart had read", "retained");
        }
    }

    @Test
    void shouldFailByNameWhenAStreamedFileIsCutBehindItsReader() throws Exception {
        try (ReplayJob job = rewrittenBehindTheReader(new ReplayJob(directory), "truncate 500000");
                ServicePair pair = pair(job, 8, 0)) {
            job.rollsBack(pair, "/image", "was truncated to 500000", "retained");
        }
    }
}
