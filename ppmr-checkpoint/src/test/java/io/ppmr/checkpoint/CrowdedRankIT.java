package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests that a user's job with many threads and descriptors costs a bounded time of a service that reads its rights.
 */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CrowdedRankIT {
    /** A small number of entries, so that reading one table twice exceeds the limit. */
    private static final int ONE_TABLE = 8_000;

    private static final int MOST = ONE_TABLE + ONE_TABLE / 2;

    @TempDir
    private Path directory;

    private JobFixture fixture;
    private Process job;

    @BeforeEach
    void start() throws Exception {
        fixture = new JobFixture();
    }

    @AfterEach
    void end() throws Exception {
        if (job != null) {
            job.descendants().forEach(ProcessHandle::destroyForcibly);
            job.destroyForcibly().waitFor();
        }
        fixture.close();
    }

    /** Starts it as the job's user. It has all its threads and descriptors when this returns. */
    private List<ProcessIdentity> crowd(int threads, int descriptors, String kind) throws Exception {
        return crowd(threads, descriptors, kind, 1);
    }

    /** Starts it with several processes. */
    private List<ProcessIdentity> crowd(int threads, int descriptors, String kind, int processes) throws Exception {
        job = new ProcessBuilder(
                        "setpriv",
                        "--reuid=" + fixture.user.uid(),
                        "--regid=" + fixture.user.gid(),
                        "--clear-groups",
                        fixture.bin.resolve("crowd-job").toString(),
                        "" + threads,
                        "" + descriptors,
                        kind,
                        "" + processes)
                .redirectErrorStream(true)
                .start();
        byte[] printed = job.getInputStream().readNBytes("ready\n".length());
        assertEquals("ready\n", new String(printed, StandardCharsets.US_ASCII));
        ProcessTable table = new ProcessTable();
        return table.tree(table.of((int) job.pid()));
    }

    private RightsBounds bounds(int most) {
        return new RightsBounds(most, directory, () -> false);
    }

    @Test
    void shouldReadATableOnceWhenThreadsShareIt() throws Exception {
        List<ProcessIdentity> processes = crowd(300, ONE_TABLE, "shared");
        ProcessPrivileges.requireReadable("rank 0", processes, bounds(MOST));
        List<String> lines = new ArrayList<>();
        try (ProcessPrivileges rights = ProcessPrivileges.read("rank 0", processes, bounds(MOST))) {
            rights.send(1000, 100_000, (page, last) -> lines.addAll(page));
        }
        assertEquals(301, lines.stream().filter(RightsLine::isThread).count());
        assertEquals(1, lines.stream().filter(RightsLine::isShared).count(), "all threads may do the same");
        assertTrue(lines.stream().filter(RightsLine::isThread).allMatch(line -> line.length() < 30));
        assertEquals(
                1,
                lines.stream().filter(line -> line.contains(" /dev/null\0r-")).count());
    }

    @Test
    void shouldRefuseByNameWhenAThreadLivesInOtherNamespacesThanItsProcess() throws Exception {
        job = new ProcessBuilder(fixture.bin.resolve("crowd-job").toString(), "3", "1", "apart").start();
        assertEquals(
                "ready\n", new String(job.getInputStream().readNBytes("ready\n".length()), StandardCharsets.US_ASCII));
        ProcessTable table = new ProcessTable();
        List<ProcessIdentity> processes = table.tree(table.of((int) job.pid()));
        CheckpointException e = assertThrows(
                CheckpointException.class, () -> ProcessPrivileges.requireReadable("rank 0", processes, bounds(MOST)));
        assertTrue(e.getMessage().contains("live in different namespaces ([uts:["), e.getMessage());
        assertTrue(e.getMessage().contains("PID " + job.pid()), e.getMessage());
        assertTrue(e.getMessage().contains("Remedy: "), e.getMessage());
    }

    /** Stops the processes and returns them held. */
    private static HeldRank held(List<ProcessIdentity> processes) throws Exception {
        ProcessTable table = new ProcessTable();
        new SignalSender(table).sendAll(SignalSender.Signal.STOP, processes);
        StopState[] found = new StopState[1];
        assertTrue(Polling.until(Duration.ofMinutes(1), () -> {
            found[0] = table.standstill(processes);
            return found[0].isHeld();
        }));
        return HeldRank.of(0, processes, List.of(), found[0]);
    }

    @Test
    void shouldProveACrowdHeldByItsClock() throws Exception {
        List<ProcessIdentity> processes = crowd(300, 1, "shared");
        ProcessTable table = new ProcessTable();
        HeldRank rank = held(processes);
        RunTimes times = RunTimes.of(table, processes.get(0));
        assertInstanceOf(RunTimes.OfCrowd.class, times);
        assertEquals(Optional.empty(), times.whyNotHeld(table, processes.get(0)));
        for (int look = 0; look < 20; look++) {
            rank.requireHeld();
        }
    }

    @Test
    void shouldSayThatACrowdHasRunWhenItWasContinuedAndStoppedAgain() throws Exception {
        List<ProcessIdentity> processes = crowd(300, 1, "shared");
        ProcessTable table = new ProcessTable();
        SignalSender signals = new SignalSender(table);
        for (int round = 0; round < 20; round++) {
            HeldRank rank = held(processes);
            signals.sendAll(SignalSender.Signal.CONT, processes);
            signals.sendAll(SignalSender.Signal.STOP, processes);
            CheckpointException e = assertThrows(CheckpointException.class, rank::requireHeld);
            assertTrue(e.getMessage().contains("rank 0"), e.getMessage());
            assertTrue(Polling.until(
                    Duration.ofMinutes(1), () -> table.standstill(processes).isHeld()));
            CheckpointException later = assertThrows(CheckpointException.class, rank::requireHeld);
            assertTrue(later.getMessage().contains("has run while it was held"), later.getMessage());
        }
    }

    @Test
    void shouldNotTakeACrowdThatRunsForOneThatStands() throws Exception {
        List<ProcessIdentity> processes = crowd(300, 1, "shared");
        ProcessTable table = new ProcessTable();
        HeldRank rank = held(processes);
        RunTimes times = RunTimes.of(table, processes.get(0));
        new SignalSender(table).sendAll(SignalSender.Signal.CONT, processes);
        assertTrue(times.whyNotHeld(table, processes.get(0)).isPresent());
        assertFalse(table.standstill(processes).isHeld());
        assertFalse(rank.isHeld());
    }

    @Test
    void shouldRefuseByNameWhenTablesOfThreadsTogetherExceedTheLimit() throws Exception {
        List<ProcessIdentity> processes = crowd(8, 2_000, "own");
        for (boolean pausing : new boolean[] {false, true}) {
            CheckpointException e = assertThrows(CheckpointException.class, () -> {
                if (pausing) {
                    ProcessPrivileges.read("rank 0", processes, bounds(MOST)).close();
                } else {
                    ProcessPrivileges.requireReadable("rank 0", processes, bounds(MOST));
                }
            });
            assertTrue(
                    e.getMessage().startsWith("rank 0 has more than " + MOST + " files open or mapped (rank_files)"),
                    e.getMessage());
        }
        ProcessPrivileges.requireReadable("rank 0", processes, bounds(9 * 2_000 + 500));
    }

    @Test
    @Tag("soak")
    void shouldRefuseByNameWhenThereAreTooManyThreads() throws Exception {
        List<ProcessIdentity> processes = crowd(200, 10, "shared");
        CheckpointException e = assertThrows(
                CheckpointException.class, () -> ProcessPrivileges.requireReadable("rank 3", processes, bounds(150)));
        assertTrue(e.getMessage().startsWith("rank 3 has more than 150 threads"), e.getMessage());
    }

    @Test
    void shouldBreakOffBetweenTwoFilesWhenItIsCalledOff() throws Exception {
        List<ProcessIdentity> processes = crowd(1, ONE_TABLE, "shared");
        for (boolean pausing : new boolean[] {false, true}) {
            AtomicInteger polled = new AtomicInteger();
            RightsBounds bounds = new RightsBounds(MOST, directory, () -> polled.incrementAndGet() > 100);
            CheckpointException e = assertThrows(CheckpointException.class, () -> {
                if (pausing) {
                    ProcessPrivileges.read("rank 0", processes, bounds).close();
                } else {
                    ProcessPrivileges.requireReadable("rank 0", processes, bounds);
                }
            });
            assertTrue(e.getMessage().contains("called off"), e.getMessage());
            assertEquals(101, polled.get());
        }
    }

    /** The record of files with different names exceeds the part in memory. */
    @Test
    @Tag("soak")
    void shouldCompareARecordThatLiesOnTheDiskLineByLine() throws Exception {
        List<ProcessIdentity> processes = crowd(2, 4_000, "named", 5);
        try (ProcessPrivileges copy = ProcessPrivileges.read("the copy", processes, bounds(30_000))) {
            ArrivingPrivileges arriving = new ArrivingPrivileges(directory, 0);
            copy.send(1000, 16_384, (page, last) -> {
                try {
                    arriving.add(page);
                } catch (CheckpointException e) {
                    throw new IOException(e);
                }
            });
            List<ProcessPrivileges.OpenFile> doubtful = new ArrayList<>();
            try (ProcessPrivileges original = arriving.end()) {
                assertTrue(directory.toFile().list().length > 3, "it lies in several files");
                assertTrue(new RightsComparison(copy, original)
                        .firstEscalation(doubtful::add)
                        .isEmpty());
            }
            assertEquals(List.of(), doubtful);
        }
        assertEquals(0, directory.toFile().list().length);
    }
}
