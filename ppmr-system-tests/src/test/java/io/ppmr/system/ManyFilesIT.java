package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Many files at once. There are more writers than chunks, and more files than a process has descriptors. */
@Tag("soak")
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ManyFilesIT {
    private static final int WRITERS = 64;
    private static final int FILES = 1_000;

    @TempDir
    private Path directory;

    @ParameterizedTest(name = "chunks of {0} bytes")
    @ValueSource(ints = {16 << 10})
    void shouldMoveEveryRankWhenWritersAreManyAndChunksFew(int chunkBytes) throws Exception {
        try (ReplayJob job = new ReplayJob(directory)) {
            for (int rank = 0; rank < WRITERS; rank++) {
                int length = (256 << 10) + rank * 9_973;
                job.rank(
                        List.of("seed " + rank, "open image wcxn", "write " + length + " 10000", "fsync", "close"),
                        List.of("seed " + rank, "open image r", "read " + length + " 30000", "eof", "close"));
            }
            try (ServicePair pair = new ServicePair(
                    directory,
                    ServicePair.Options.with(job.checkpointer())
                            .pool(8, chunkBytes)
                            .stall(Duration.ofSeconds(8)))) {
                job.commits(pair);
            }
            // A closed service has no running work. The removal of 64 ranks' folders needs some time.
            assertEquals(List.of(), namesIn(directory.resolve("target-work")));
            assertEquals(List.of(), namesIn(directory.resolve("source-work")));
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest(name = "chunks of {0} bytes")
    @ValueSource(ints = {128 << 10})
    void shouldMoveEveryRankWhenWritersAreManyAndChunksFewAsWell(int chunkBytes) throws Exception {
        shouldMoveEveryRankWhenWritersAreManyAndChunksFew(chunkBytes);
    }

    @Tag("soak")
    @ParameterizedTest(name = "files of {0} bytes")
    @ValueSource(ints = {3_000, 300_000})
    void shouldMoveAThousandFilesWhenTheyAreWrittenAndReadInTurn(int length) throws Exception {
        List<String> checkpoint = new ArrayList<>();
        List<String> restart = new ArrayList<>();
        for (int file = 0; file < FILES; file++) {
            checkpoint.addAll(List.of("seed " + file, "open file-" + file + " wcx"));
        }
        for (int file = 0; file < FILES; file++) {
            checkpoint.addAll(List.of("seed " + file, "use " + file, "write " + length, "close"));
            restart.addAll(List.of("seed " + file, "open file-" + file + " r", "read " + length));
        }
        try (ReplayJob job = new ReplayJob(directory).announces(names()).rank(checkpoint, restart);
                ServicePair pair = new ServicePair(
                        directory, ServicePair.Options.with(job.checkpointer()).stall(Duration.ofSeconds(8)))) {
            job.commits(pair);
        }
    }

    @Tag("soak")
    @Test
    void shouldStageAThousandFilesWhenAllAreWrittenBeforeOneIsRead() throws Exception {
        moveInterleaved(new ReplayJob(directory), 512L << 20);
    }

    @Tag("soak")
    @Test
    void shouldRetainAThousandFilesWhenTheyAreReadInAnyOrder() throws Exception {
        moveInterleaved(new ReplayJob(directory).retained(), 512L << 20);
    }

    /** All files grow at once, a piece of each in turn. Then they are read from the last to the first. */
    private void moveInterleaved(ReplayJob job, long stagingBytes) throws Exception {
        int piece = 70_000;
        int pieces = 3;
        List<String> checkpoint = new ArrayList<>();
        List<String> restart = new ArrayList<>();
        for (int file = 0; file < FILES; file++) {
            checkpoint.add("open file-" + file + " wcx");
        }
        for (int turn = 0; turn < pieces; turn++) {
            for (int file = 0; file < FILES; file++) {
                checkpoint.addAll(List.of("seed " + file, "use " + file, "write " + piece));
            }
        }
        for (int file = FILES - 1; file >= 0; file--) {
            restart.addAll(List.of("seed " + file, "open file-" + file + " r", "read " + piece * pieces, "eof"));
        }
        try (job;
                ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(job.announces(names())
                                        .rank(checkpoint, restart)
                                        .checkpointer())
                                .staging(stagingBytes)
                                .stall(Duration.ofSeconds(8)))) {
            job.commits(pair);
        }
    }

    private static List<String> namesIn(Path folder) throws IOException {
        try (Stream<Path> found = Files.list(folder)) {
            return found.map(Path::getFileName).map(Path::toString).toList();
        }
    }

    private static String[] names() {
        String[] names = new String[FILES];
        for (int file = 0; file < FILES; file++) {
            names[file] = "file-" + file;
        }
        return names;
    }
}
