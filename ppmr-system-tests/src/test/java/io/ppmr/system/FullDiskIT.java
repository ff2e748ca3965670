package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.MappedJournal;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Disks without room: what cannot be done is named, and works once there is room. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FullDiskIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    private final List<Path> disks = new ArrayList<>();

    @TempDir
    private Path directory;

    @AfterEach
    void takeDisksAway() throws Exception {
        for (Path disk : disks) {
            run("umount", "--lazy", disk.toString());
        }
    }

    private void mount(Path disk, String options) throws Exception {
        run("mount", "-t", "tmpfs", "-o", options, "ppmr-test", disk.toString());
        disks.add(disk);
    }

    private static void run(String... words) throws Exception {
        Command.of(List.of(words)).run(LIMIT).requireOutput();
    }

    @Test
    void shouldOpenTheJournalOnceThereIsRoomWhenTheDiskWasFullAtTheFirstStart() throws Exception {
        mount(directory, "size=1m");
        IOException refused = assertThrows(IOException.class, () -> MappedJournal.in(directory));
        assertTrue(refused.getMessage().contains("make room"), refused.getMessage());
        assertFalse(Files.exists(directory.resolve(MappedJournal.FILE_NAME)), "a part of a journal is left");
        run("mount", "-o", "remount,size=16m", directory.toString());
        MappedJournal.in(directory).close();
    }

    /** Older releases left these when the disk was full at their first start. */
    @ParameterizedTest(name = "{0} bytes")
    @ValueSource(ints = {0, 65_536})
    void shouldBeginAnewWhenTheJournalHasNothingButZeros(int bytes) throws Exception {
        Files.write(directory.resolve(MappedJournal.FILE_NAME), new byte[bytes]);
        MappedJournal.in(directory).close();
    }

    @ParameterizedTest
    @ValueSource(strings = {"source", "target"})
    void shouldNameTheWorkDirectoryWhenItIsFull(String end) throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write 1m", "close"),
                                List.of("open image r", "read 1m", "eof"));
                ServicePair pair = new ServicePair(directory, ServicePair.Options.with(job.checkpointer()))) {
            Path work = directory.resolve(end + "-work");
            mount(work, "size=4k,nr_inodes=1,mode=755");
            MigrationReport report = job.migrate(pair);
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            assertTrue(report.reason().contains("make room in " + work), report.reason());
            assertEquals(end.equals("target"), report.reason().contains("the target fails: "), report.reason());
        }
    }
}
