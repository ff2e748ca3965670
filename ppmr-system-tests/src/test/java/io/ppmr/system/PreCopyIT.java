package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.Command;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Jobs whose memory is copied while they compute, by real CRIU. The job maps, moves, unmaps, protects and writes memory
 * in several threads, forks, and checks all of it, so that a lost, old or zero page shows.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PreCopyIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final long STAGING_BYTES = 1 << 30;
    private static final int MOST_TRIES = 5;
    /** Copies of an ordinary user's jobs are filled behind the decision. */
    private static final JobUser USER = new JobUser(41_377, 41_377);

    @TempDir
    private Path directory;

    /** One in 256 processes has its stack where CRIU streams nothing. Then the test uses another job. */
    private CriuJob start(long seed, int mib, int pace) throws Exception {
        for (int tries = 0; ; tries++) {
            Path own = Files.createDirectory(directory.resolve("seed-" + seed + "." + tries));
            for (Path passed : List.of(directory.getParent(), directory, own)) {
                Files.setPosixFilePermissions(passed, PosixFilePermissions.fromString("rwxr-xr-x"));
            }
            CriuJob job = CriuJob.startAs(
                    USER,
                    own,
                    System.getProperty("ppmr.demo.dir")
                            + "/churn-job --report report --threads 2 --children 1 --pace " + pace + " --seed " + seed
                            + " --mib " + mib);
            Conditions.until(LIMIT, "the job computes", () -> report(job).contains("ready"));
            Checkpointer criu = CriuJob.criu();
            ProcessTable table = new ProcessTable();
            if (job.pids().stream()
                    .flatMap(pid -> table.find(pid.intValue()).stream())
                    .allMatch(process -> criu.whyNotStreamed(process).isEmpty())) {
                return job;
            }
            job.close();
        }
    }

    /**
     * Moves a job. Children that it has just forked when it is stopped may have more memory than there is room for at
     * the target. Then the job continues as it was, and is moved again.
     */
    private static MigrationReport untilItFits(Callable<MigrationReport> move) throws Exception {
        MigrationReport report = move.call();
        for (int tries = 1; tries < MOST_TRIES && hadNoRoom(report); tries++) {
            report = move.call();
        }
        return report;
    }

    private static boolean hadNoRoom(MigrationReport report) {
        return report.outcome() == Outcome.ROLLED_BACK && report.reason().contains("memory have arrived");
    }

    private static String report(CriuJob job) throws IOException {
        return Files.exists(job.file("report")) ? Files.readString(job.file("report")) : "";
    }

    private static ServicePair.Options options(Checkpointer criu) {
        return ServicePair.Options.with(criu).trusts(USER).staging(STAGING_BYTES);
    }

    /** Ends the job, which checks all of its memory before. */
    private static void requireRight(CriuJob job, int pid) throws Exception {
        Command.of(List.of("kill", "-TERM", Integer.toString(pid))).run(LIMIT);
        Conditions.until(
                LIMIT,
                "the job has ended",
                () -> report(job).contains("end:") || report(job).contains("wrong"));
        assertFalse(report(job).contains("wrong"), report(job));
    }

    private void move(long seed, int mib, int pace) throws Exception {
        // Every second copy may run before it is whole.
        Checkpointer criu = seed % 2 == 0 ? CriuJob.criuBehind() : CriuJob.criu(PagePolicy.PRECOPIED);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start(seed, mib, pace)) {
            MigrationReport report = untilItFits(() -> job.migrate(pair, criu));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.pages().matches("precopied: .* rounds?, .*"), report.pages());
            requireRight(job, report.ranks().get(0).pids().get(0));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void shouldLoseNoWriteWhenMemoryIsCopiedWhileTheJobComputes(int seed) throws Exception {
        move(seed, 48, 50);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 1200, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldLoseNoWriteInFortyMovesOfJobsThatWriteMuchOrLittle() throws Exception {
        for (int seed = 100; seed < 140; seed++) {
            Path before = directory;
            directory = Files.createDirectory(before.resolve("move-" + seed));
            move(seed, 16 + seed % 5 * 12, 10 << seed % 8);
            directory = before;
        }
    }

    /** The copy of one move is the original of the next, in a PID namespace of its own. */
    @Tag("soak")
    @Test
    void shouldMoveAgainWhenTheJobWasMovedBefore() throws Exception {
        Checkpointer criu = CriuJob.criuBehind();
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start(7, 24, 50)) {
            int pid = job.pid();
            for (int move = 0; move < 3; move++) {
                int root = pid;
                MigrationReport report = untilItFits(() -> job.migrate(pair, criu, root));
                assertEquals(Outcome.COMMITTED, report.outcome(), "move " + move + ": " + report.reason());
                pid = report.ranks().get(0).pids().get(0);
            }
            requireRight(job, pid);
        }
    }

    @Tag("soak")
    @Test
    void shouldStreamWhenTheTargetsStagingHasNoRoomForTheMemory() throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.PRECOPIED);
        try (ServicePair pair = new ServicePair(directory, options(criu).staging(64 << 20));
                CriuJob job = start(4, 48, 50)) {
            MigrationReport report = job.migrate(pair, criu);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(
                    report.pages().startsWith("streamed: ")
                            && report.pages().contains("not be copied while it computes"),
                    report.pages());
            requireRight(job, report.ranks().get(0).pids().get(0));
        }
    }

    /** The first round is cut when the time is nearly over. On a slow machine there is no time for a round at all. */
    @Tag("soak")
    @Test
    void shouldSendTheRestInThePauseWhenThereIsNoTimeForTheWholeRound() throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.PRECOPIED);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start(8, 150, 50)) {
            MigrationReport report = job.migrateWithin(pair, criu, Duration.ofSeconds(1));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.pages().contains("within the time that was given"), report.pages());
            requireRight(job, report.ranks().get(0).pids().get(0));
        }
    }

    @Test
    void shouldCopyBeforeThePauseByItselfWhenAStreamedPauseWouldBeLong() throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.AUTO);
        try (ServicePair pair = new ServicePair(directory, options(criu).pauseGoal(Duration.ofMillis(150)));
                CriuJob job = start(9, 100, 50)) {
            MigrationReport report = untilItFits(() -> job.migrate(pair, criu));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.pages().startsWith("precopied: "), report.pages());
            requireRight(job, report.ranks().get(0).pids().get(0));
        }
    }

    /** Nothing was done to the job before, so that it only continues. */
    @Test
    void shouldLeaveTheJobAsItWasWhenTheMigrationIsCalledOffWhileMemoryIsCopied() throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.PRECOPIED);
        try (ServicePair pair = new ServicePair(directory, options(criu));
                CriuJob job = start(5, 200, 50)) {
            Cancellation cancellation = new Cancellation();
            CompletableFuture<MigrationReport> moved = move(job, pair, criu, cancellation);
            awaitTool("ppmr-pages source");
            cancellation.cancel("the test");
            MigrationReport report = moved.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
            assertFalse(report.outcome() == Outcome.COMMITTED, report.toString());
            requireUntouched(job);
        }
    }

    /** The job has not been stopped then, so it is streamed to the same target. */
    @Tag("soak")
    @ParameterizedTest
    @ValueSource(strings = {"ppmr-pages source", "ppmr-pages target"})
    void shouldStreamTheJobToTheSameTargetWhenAToolIsKilledWhileMemoryIsCopied(String words) throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.PRECOPIED);
        for (int tries = 1; ; tries++) {
            try (ServicePair pair =
                            new ServicePair(Files.createDirectory(directory.resolve("try-" + tries)), options(criu));
                    CriuJob job = start(6 + tries, 200, 50)) {
                CompletableFuture<MigrationReport> moved = move(job, pair, criu, new Cancellation());
                boolean isKilled = killTool(words, moved);
                MigrationReport report = moved.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
                assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
                requireRight(job, report.ranks().get(0).pids().get(0));
                // A tool that runs for a moment only may not be seen.
                if (isKilled) {
                    assertTrue(
                            report.pages().startsWith("streamed: ")
                                    && report.pages().contains("an earlier attempt failed"),
                            report.pages());
                    return;
                }
                assertTrue(tries < MOST_TRIES, words + " was not seen in " + tries + " migrations");
            }
        }
    }

    /** Kills the tool when it runs. Returns false if the migration ended before. */
    private boolean killTool(String words, CompletableFuture<MigrationReport> moved) throws Exception {
        Optional<Long> tool = Optional.empty();
        while (tool.isEmpty() && !moved.isDone()) {
            tool = tool(words);
            LockSupport.parkNanos(2_000_000);
        }
        return tool.isPresent()
                && Command.of(List.of("kill", "-KILL", Long.toString(tool.get())))
                                .run(LIMIT)
                                .exitCode()
                        == 0;
    }

    /** A process that was forked from the filling one, and keeps its memory, would have it a second time. */
    @Tag("soak")
    @Test
    void shouldHoldTheStoreOnceWhileTheCopyIsFilled() throws Exception {
        Checkpointer criu = CriuJob.criu(PagePolicy.PRECOPIED);
        for (int tries = 1; ; tries++) {
            try (ServicePair pair =
                            new ServicePair(Files.createDirectory(directory.resolve("try-" + tries)), options(criu));
                    // A third process may just have been forked when the job is stopped. Staging has room for that.
                    CriuJob job = start(10 + tries, 120, 50)) {
                CompletableFuture<MigrationReport> moved = move(job, pair, criu, new Cancellation());
                long mostKib = 0;
                while (!moved.isDone()) {
                    mostKib = Math.max(mostKib, holderKib());
                    LockSupport.parkNanos(2_000_000);
                }
                MigrationReport report = moved.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
                assertTrue(mostKib < 32 << 10, "the holder had " + mostKib + " KiB");
                if (report.outcome() == Outcome.COMMITTED) {
                    requireRight(job, report.ranks().get(0).pids().get(0));
                } else {
                    // On a slow machine a job may write, and fork, more than there is room for.
                    assertTrue(hadNoRoom(report), report.reason());
                }
                if (mostKib > 0 && report.outcome() == Outcome.COMMITTED) {
                    return;
                }
                assertTrue(tries < MOST_TRIES, "the holder was not seen in " + tries + " migrations");
            }
        }
    }

    /** Returns the anonymous memory of the process that holds the copies' descriptors; 0 if there is none. */
    private static long holderKib() {
        try (Stream<ProcessHandle> all = ProcessHandle.allProcesses()) {
            return all.map(process -> status(process.pid()))
                    // One that ends at this moment no longer has memory.
                    .filter(status -> status.contains("\tppmr-holder\n") && status.contains("RssAnon:"))
                    .mapToLong(status -> Long.parseLong(status.replaceAll("(?s).*RssAnon:\\s*(\\d+) kB.*", "$1")))
                    .max()
                    .orElse(0);
        }
    }

    private static String status(long pid) {
        try {
            return Files.readString(Path.of("/proc/" + pid + "/status"));
        } catch (IOException gone) {
            return "";
        }
    }

    private static CompletableFuture<MigrationReport> move(
            CriuJob job, ServicePair pair, Checkpointer criu, Cancellation cancellation) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return job.migrate(pair, criu, job.pid(), "move", cancellation);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    /** No process of the job is stopped, or has memory that is registered; and its memory is right. */
    private static void requireUntouched(CriuJob job) throws Exception {
        for (long pid : job.pids()) {
            assertFalse(memory(pid).contains(" uw"), "PID " + pid + " has registered memory");
        }
        requireRight(job, job.pid());
    }

    /** Returns what the kernel shows of a process's memory. Some children of the job live for milliseconds. */
    private static String memory(long pid) {
        try {
            return Files.readString(Path.of("/proc/" + pid + "/smaps"));
        } catch (IOException gone) {
            return "";
        }
    }

    /** Waits for the tool of this test's migration. */
    private long awaitTool(String words) throws Exception {
        long[] found = new long[1];
        Conditions.until(LIMIT, words + " runs", () -> {
            Optional<Long> tool = tool(words);
            tool.ifPresent(pid -> found[0] = pid);
            return tool.isPresent();
        });
        return found[0];
    }

    private Optional<Long> tool(String words) throws IOException {
        try (Stream<ProcessHandle> all = ProcessHandle.allProcesses()) {
            return all.map(ProcessHandle::pid)
                    .filter(pid -> {
                        String line = commandLine(pid);
                        return line.contains("native/" + words)
                                && line.contains(directory.toString())
                                && !line.contains("ppmr-launch")
                                && !line.contains("ppmr-rank-init");
                    })
                    .findFirst();
        }
    }

    private static String commandLine(long pid) {
        try {
            return Files.readString(Path.of("/proc/" + pid + "/cmdline")).replace('\0', ' ');
        } catch (IOException gone) {
            return "";
        }
    }
}
