package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Services that die while the files of a job travel with it. In the end the job is at one node with every line, and the
 * other node has its earlier files.
 */
@Tag("soak")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CarriedFilesDeathIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(90));
    private static final JobUser USER = new JobUser(41_380, 41_380);
    private static final String LARGE = "96m";
    private static final int MOST_TURNS = 5;

    private static ScratchJob job;
    private static TestNode here;
    private static TestNode there;

    @BeforeAll
    static void startServices() throws Exception {
        job = new ScratchJob("carried-files-death", USER, 2, "replace = true", "replace = true");
        here = job.nodes().a();
        there = job.nodes().b();
    }

    @AfterAll
    static void end() throws Exception {
        job.close();
    }

    @AfterEach
    void clear() throws Exception {
        job.clear();
    }

    /** A point of the way of a job's files. */
    private enum Step {
        NOTED,
        WRITING,
        WRITTEN,
        PLACED,
        VOTED,
        COMMITTED
    }

    private static boolean isReached(Step step) throws IOException {
        try (Stream<Path> found = Files.list(job.notes())) {
            List<Path> notes = found.toList();
            boolean reached =
                    switch (step) {
                        case NOTED -> !notes.isEmpty();
                        case WRITING -> hasTemporary();
                        case WRITTEN -> {
                            boolean identified = false;
                            for (Path note : notes) {
                                identified |= Files.readString(note, StandardCharsets.ISO_8859_1)
                                        .contains(":");
                            }
                            yield identified;
                        }
                        case PLACED -> Files.size(job.in(there, "scratch/a/0")) > "old\n".length();
                        case VOTED -> has(TransactionRecord.PreparedHere.class);
                        case COMMITTED -> has(TransactionRecord.CommittedHere.class);
                    };
            return reached;
        } catch (NoSuchFileException e) {
            return false;
        }
    }

    private static boolean hasTemporary() throws IOException {
        try (Stream<Path> files = Files.list(job.in(there, "scratch/a"))) {
            return files.anyMatch(file -> file.getFileName().toString().startsWith(".ppmr-"));
        }
    }

    private static boolean has(Class<? extends TransactionRecord> kind) throws IOException {
        return Nodes.journal(job.nodes().target().folder(), "target").stream()
                .skip(seen)
                .anyMatch(kind::isInstance);
    }

    private static long seen;

    /** Two ranks with a file each, one large file that both read, and a file that one of theirs replaces there. */
    private static void start() throws Exception {
        seen = Nodes.journal(job.nodes().target().folder(), "target").size();
        job.asUser(here, "mkdir -p scratch/a; head -c " + LARGE + " /dev/urandom >scratch/a/large");
        job.asUser(there, "mkdir -p scratch/a; echo old >scratch/a/0");
        String large = "4<" + job.local() + "/scratch/a/large";
        job.start(0, "scratch/a/0", large);
        job.start(1, "scratch/a/1", large);
    }

    private static void requireOneJobAndNothingLeft() throws Exception {
        job.requireTurns();
        boolean moved = !there.run(LIMIT, "sh", "-c", "pgrep -u " + USER.uid() + " bash || true")
                .isBlank();
        boolean stayed = !here.run(LIMIT, "sh", "-c", "pgrep -u " + USER.uid() + " bash || true")
                .isBlank();
        assertTrue(moved ^ stayed, "moved: " + moved + ", stayed: " + stayed);
        job.requireEveryLine(moved ? there : here);
        Conditions.until(LIMIT, "nothing of ppmr's is left there", () -> {
            try (Stream<Path> notes = Files.list(job.notes())) {
                return !hasTemporary() && notes.findAny().isEmpty();
            }
        });
        if (moved) {
            assertEquals("0 1 large", job.shell(there, "ls -A scratch/a | xargs"));
            assertEquals(job.shell(here, "sha256sum <scratch/a/large"), job.shell(there, "sha256sum <scratch/a/large"));
        } else {
            assertEquals("0", job.shell(there, "ls -A scratch/a"));
            assertEquals("old", job.shell(there, "cat scratch/a/0"));
        }
    }

    /**
     * A check before the pause may meet a child of the job that ends just then. Nothing is done, and the check is
     * repeated.
     */
    private static CompletableFuture<String> migrateTo(Step step) throws Exception {
        for (int turn = 0; ; turn++) {
            CompletableFuture<String> migration = job.migrateLater();
            Conditions.until(LIMIT, "the files are " + step, () -> isReached(step) || migration.isDone());
            if (isReached(step) || turn == MOST_TURNS) {
                return migration;
            }
            assertTrue(migration.get().contains("No such process"), migration.get());
        }
    }

    @ParameterizedTest
    @CsvSource({
        "NOTED, target",
        "WRITING, target",
        "WRITTEN, target",
        "PLACED, target",
        "VOTED, target",
        "COMMITTED, target",
        "NOTED, source",
        "WRITING, source",
        "PLACED, source",
        "VOTED, source",
        "WRITING, both",
        "PLACED, both",
        "VOTED, both",
    })
    void shouldLeaveNothingWhenAServiceDies(Step step, String who) throws Exception {
        start();
        CompletableFuture<String> migration = migrateTo(step);
        if (!who.equals("source")) {
            job.nodes().target().kill();
        }
        if (!who.equals("target")) {
            job.nodes().source().kill();
        }
        if (!who.equals("source")) {
            job.nodes().startTargetAgain();
        }
        if (!who.equals("target")) {
            job.nodes().startSourceAgain();
        }
        migration.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
        requireOneJobAndNothingLeft();
    }

    /** Both ranks have the large file open for reading. It travels once, and each rank also has its own file. */
    @Test
    void shouldMoveRanksThatReadOneFileAndWriteTheirOwn() throws Exception {
        start();
        job.requireMoved();
        requireOneJobAndNothingLeft();
    }

    @Test
    void shouldRefuseRanksOfWhichOneReadsWhatTheOtherWrites() throws Exception {
        job.asUser(here, "mkdir -p scratch/a");
        job.asUser(there, "mkdir -p scratch/a");
        job.start(0, "scratch/a/0", "");
        job.start(1, "scratch/a/1", "4<" + job.local() + "/scratch/a/0");
        String said = job.migrate();
        assertTrue(said.contains("the job was not stopped: rank "), said);
        assertTrue(said.contains("which belongs to rank "), said);
        job.requireTurns();
    }
}
