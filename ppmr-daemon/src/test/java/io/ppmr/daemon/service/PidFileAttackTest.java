package io.ppmr.daemon.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A job's user replaces a configured PID file by something else. That job fails with a message that names the cause,
 * and the others continue.
 */
class PidFileAttackTest {
    private static final int PID = 99;
    private static final int STRANGER = 20_002;
    private static final long LIMIT_S = 30;

    @TempDir
    private Path directory;

    private final LinkedBlockingQueue<MigrationOrder> moved = new LinkedBlockingQueue<>();
    private Path file;
    private Path good;
    private Migrations migrations;

    @BeforeEach
    void setUp() throws Exception {
        file = directory.resolve("pid");
        good = Files.writeString(directory.resolve("good"), PID + "\n");
        migrations = new Migrations(
                Map.of("bad", job("bad", file), "good", job("good", good)),
                Optional.empty(),
                new MigrationQueue(this::move));
    }

    @AfterEach
    void tearDown() throws Exception {
        assertTrue(migrations.close(Duration.ofSeconds(LIMIT_S)));
    }

    private static ConfiguredJob job(String name, Path pidFile) throws IOException {
        Checkpointer checkpointer =
                CheckpointerSettings.Blcr.installed().create("blcr", new NativePrograms(Path.of("/nowhere")));
        int self = (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
        return new ConfiguredJob(
                name,
                new JobUser(self == 0 ? 1 : self, 1),
                checkpointer,
                List.of(new ConfiguredJob.RankSource(0, 0, pidFile)));
    }

    private MigrationReport move(
            String id, MigrationOrder order, Cancellation cancellation, Consumer<MigrationProgress> watcher) {
        moved.add(order);
        return new MigrationReport(
                id,
                "blcr",
                "",
                MigrationReport.Outcome.COMMITTED,
                "",
                MigrationReport.MovedImages.NONE,
                MigrationReport.MigrationTimes.NONE,
                MigrationReport.ServiceMemory.NONE,
                List.of(),
                null,
                false);
    }

    private MigrationQueue.Event migrate(String job) throws Exception {
        CompletableFuture<MigrationQueue.Event> ended = new CompletableFuture<>();
        migrations.start(job, "a test", event -> {
            if (!(event instanceof MigrationQueue.Event.Going)) {
                ended.complete(event);
            }
        });
        return ended.get(LIMIT_S, TimeUnit.SECONDS);
    }

    private void requireThatJobAloneFails(String words) throws Exception {
        String said = assertInstanceOf(MigrationQueue.Event.Failed.class, migrate("bad"))
                .reason();
        assertTrue(said.contains("job bad, rank 0") && said.contains(file.toString()) && said.contains(words), said);
        // It is over, so a cancellation has nothing to roll back.
        assertThrows(RequestException.class, () -> migrations.cancel("0000", "a test"));
        assertEquals(Optional.empty(), migrations.state().running());
        assertInstanceOf(MigrationQueue.Event.Ended.class, migrate("good"));
        assertEquals(PID, moved.remove().job().ranks().get(0).pid());
        assertTrue(moved.isEmpty(), "the other was never begun");
    }

    @Test
    void shouldFailThatJobAloneWhenThePidFileIsAFifo() throws Exception {
        assertEquals(0, new ProcessBuilder("mkfifo", file.toString()).start().waitFor());
        requireThatJobAloneFails("no regular file");
    }

    @Test
    void shouldFailThatJobAloneWhenThePidFileIsSparse() throws Exception {
        try (RandomAccessFile sparse = new RandomAccessFile(file.toFile(), "rw")) {
            sparse.setLength(1L << 30);
        }
        requireThatJobAloneFails("longer than");
    }

    @Test
    void shouldFailThatJobAloneWhenThePidFileIsALink() throws Exception {
        Files.createSymbolicLink(file, good);
        requireThatJobAloneFails("symbolic link");
    }

    @Test
    void shouldFailThatJobAloneWhenThePidFileIsAnotherUsers() throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: chown");
        Files.setAttribute(Files.writeString(file, PID + "\n"), "unix:uid", STRANGER);
        requireThatJobAloneFails("belongs to user " + STRANGER);
    }

    @Test
    void shouldFailThatJobAloneWhenThePidFileHoldsSomethingElse() throws Exception {
        Files.writeString(file, "root:$6$secret\n");
        requireThatJobAloneFails("does not hold a PID alone");
    }
}
