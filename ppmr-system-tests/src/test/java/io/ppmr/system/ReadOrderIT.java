package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.migration.source.MigrationReport;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** 64 files read strictly one after the other, from the last to the first, through a pool of 8 MiB. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ReadOrderIT {
    private static final int FILES = 64;

    @TempDir
    private Path directory;

    private static int length(int file) {
        return (256 << 10) + file * 12_289;
    }

    private ServicePair pair(ReplayJob job, long stagingBytes) throws Exception {
        return new ServicePair(
                directory,
                ServicePair.Options.with(job.checkpointer())
                        .staging(stagingBytes)
                        .stall(Duration.ofSeconds(6)));
    }

    @Tag("soak")
    @ParameterizedTest(name = "staging of {0} bytes")
    @ValueSource(longs = {0})
    void shouldMoveTheJobWhenEachFileHasAWriterOfItsOwn(long stagingBytes) throws Exception {
        try (ReplayJob job = new ReplayJob(directory)) {
            for (int file = 0; file < FILES; file++) {
                List<String> restart = new ArrayList<>();
                if (file < FILES - 1) {
                    restart.add("await " + job.outside("read-" + (file + 1)));
                }
                restart.addAll(List.of(
                        "seed " + file,
                        "open image r",
                        "read " + length(file) + " 50000",
                        "eof",
                        "touch " + job.outside("read-" + file)));
                job.rank(
                        List.of("seed " + file, "open image wcxn", "write " + length(file) + " 60000", "close"),
                        restart);
            }
            try (ServicePair pair = pair(job, stagingBytes)) {
                MigrationReport report = job.commits(pair);
                if (stagingBytes == 0) {
                    assertEquals(0, report.images().stagedBytes());
                }
            }
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest(name = "staging of {0} bytes")
    @ValueSource(longs = {1L << 30})
    void shouldMoveTheJobWhenEachFileHasAWriterOfItsOwnAsWell(long stagingBytes) throws Exception {
        shouldMoveTheJobWhenEachFileHasAWriterOfItsOwn(stagingBytes);
    }

    private static ReplayJob writtenInTurn(ReplayJob job) throws Exception {
        List<String> checkpoint = new ArrayList<>();
        List<String> restart = new ArrayList<>();
        String[] names = new String[FILES];
        for (int file = 0; file < FILES; file++) {
            names[file] = "file-" + file;
            checkpoint.addAll(
                    List.of("seed " + file, "open file-" + file + " wcx", "write " + length(file) + " 60000", "close"));
        }
        for (int file = FILES - 1; file >= 0; file--) {
            restart.addAll(List.of(
                    "seed " + file, "open file-" + file + " r", "read " + length(file) + " 50000", "eof", "close"));
        }
        return job.announces(names).rank(checkpoint, restart);
    }

    @ParameterizedTest(name = "staging of {0} bytes")
    @ValueSource(longs = {4 << 20})
    void shouldFailByNameWhenOneWriterWritesAllAndTheyCannotBeKept(long stagingBytes) throws Exception {
        try (ReplayJob job = writtenInTurn(new ReplayJob(directory));
                ServicePair pair = pair(job, stagingBytes)) {
            job.rollsBack(
                    pair, "file-", "the pool is full", "staging is limited to " + stagingBytes, "raise pool.size");
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest(name = "staging of {0} bytes")
    @ValueSource(longs = {0})
    void shouldFailByNameWhenOneWriterWritesAllAndTheyCannotBeKeptAsWell(long stagingBytes) throws Exception {
        shouldFailByNameWhenOneWriterWritesAllAndTheyCannotBeKept(stagingBytes);
    }

    @Tag("soak")
    @ParameterizedTest(name = "staging of {0} bytes")
    @ValueSource(longs = {1L << 30})
    void shouldMoveTheJobWhenOneWriterWritesAllAndTheyCanBeKept(long stagingBytes) throws Exception {
        try (ReplayJob job = writtenInTurn(new ReplayJob(directory));
                ServicePair pair = pair(job, stagingBytes)) {
            job.commits(pair);
        }
    }
}
