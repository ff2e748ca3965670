package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.migration.source.MigrationReport;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * BLCR's calls, one by one. It has a context file for each process, front to back, with lengths in 4 bytes, small
 * structs, and pages that head a chunk. Each run of pages is one write. It is read in the same pieces, and never at the
 * end.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BlcrPatternIT {
    private static final int PAGE = 4096;
    private static final int LARGEST_RUN = 64 << 20;

    @TempDir
    private Path directory;

    /** The pieces of a context file, in bytes. */
    private static List<Integer> context(long seed) {
        Random random = new Random(seed);
        List<Integer> pieces = new ArrayList<>(List.of(4, 8, 4, 56, 4, 4, 392, 4, 160));
        for (int area = 0; area < 40; area++) {
            pieces.addAll(List.of(4, 72, 4, 4 + random.nextInt(60), PAGE));
            for (int run = random.nextInt(5); run > 0; run--) {
                pieces.add(PAGE * (1 + random.nextInt(64)));
            }
        }
        pieces.addAll(List.of(PAGE, LARGEST_RUN, PAGE, LARGEST_RUN / 2 + PAGE, 4, 4, 24, 4));
        return pieces;
    }

    private static List<String> calls(String call, List<Integer> pieces) {
        return pieces.stream().map(bytes -> call + " " + bytes + " " + bytes).toList();
    }

    private static List<String> checkpoint(String name, String flags, List<Integer> pieces) {
        List<String> calls = new ArrayList<>(List.of("open " + name + " " + flags, "fsize 0"));
        calls.addAll(calls("write", pieces));
        calls.add("fsync");
        return calls;
    }

    /** A context file's restart reads some pieces only to throw them away, and does not read at the end. */
    private static List<String> restart(List<Integer> pieces) {
        List<String> calls = new ArrayList<>(List.of("open image r"));
        for (int piece = 0; piece < pieces.size(); piece++) {
            int bytes = pieces.get(piece);
            calls.add(piece % 9 == 4 ? "skim " + bytes + " " + PAGE : "read " + bytes + " " + bytes);
        }
        calls.add("close");
        return calls;
    }

    private static long sum(List<Integer> pieces) {
        return pieces.stream().mapToLong(Integer::longValue).sum();
    }

    @ParameterizedTest(name = "opened with {0}")
    @ValueSource(strings = {"wcxn"})
    void shouldMoveTheJobWhenContextFilesAreWrittenUnderTheirNames(String flags) throws Exception {
        try (ReplayJob job = new ReplayJob(directory)) {
            long bytes = 0;
            for (int rank = 0; rank < 3; rank++) {
                List<Integer> pieces = context(rank);
                bytes += sum(pieces);
                List<String> checkpoint = checkpoint("image", flags, pieces);
                checkpoint.add("close");
                job.rank(checkpoint, restart(pieces));
            }
            try (ServicePair pair = new ServicePair(
                    directory, ServicePair.Options.with(job.checkpointer()).stall(Duration.ofSeconds(8)))) {
                MigrationReport report = job.commits(pair);
                assertEquals(bytes, report.images().bytes());
                assertEquals(0, report.images().stagedBytes());
            }
        }
    }

    /** The rows that the gate leaves out. */
    @Tag("soak")
    @ParameterizedTest(name = "opened with {0}")
    @ValueSource(strings = {"wctn"})
    void shouldMoveTheJobWhenContextFilesAreWrittenUnderTheirNamesAsWell(String flags) throws Exception {
        shouldMoveTheJobWhenContextFilesAreWrittenUnderTheirNames(flags);
    }

    private static List<String> atomicCheckpoint(List<Integer> pieces) {
        List<String> checkpoint = checkpoint("image.tmp", "wctn", pieces);
        checkpoint.addAll(List.of("close", "chmod 0400 image.tmp", "rename image.tmp image"));
        return checkpoint;
    }

    @Tag("soak")
    @Test
    void shouldShowTheFinalNameFromTheFirstByteWhenATemporaryNameIsWrittenAndTheRuleIsGiven() throws Exception {
        List<Integer> pieces = context(7);
        try (ReplayJob job =
                        new ReplayJob(directory).temporary(".tmp", "").rank(atomicCheckpoint(pieces), restart(pieces));
                ServicePair pair = new ServicePair(
                        directory, ServicePair.Options.with(job.checkpointer()).stall(Duration.ofSeconds(8)))) {
            MigrationReport report = job.commits(pair);
            assertEquals(0, report.images().stagedBytes());
        }
    }

    @Tag("soak")
    @Test
    void shouldStageTheImageWhenATemporaryNameHidesIt() throws Exception {
        List<Integer> pieces = context(8);
        try (ReplayJob job = new ReplayJob(directory).rank(atomicCheckpoint(pieces), restart(pieces));
                ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(job.checkpointer())
                                .staging(256 << 20)
                                .stall(Duration.ofSeconds(8)))) {
            job.commits(pair);
        }
    }

    @Tag("soak")
    @Test
    void shouldFailByNameWhenATemporaryNameHidesTheImageAndNothingMayBeStaged() throws Exception {
        List<Integer> pieces = context(9);
        try (ReplayJob job = new ReplayJob(directory).rank(atomicCheckpoint(pieces), restart(pieces));
                ServicePair pair = new ServicePair(
                        directory, ServicePair.Options.with(job.checkpointer()).stall(Duration.ofSeconds(8)))) {
            job.rollsBack(pair, "image.tmp", "pool.size or staging.limit");
        }
    }
}
