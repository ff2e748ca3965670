package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.source.Cancellation;
import io.ppmr.source.Job;
import io.ppmr.source.MigrationOrder;
import io.ppmr.source.MigrationReport;
import io.ppmr.source.MigrationReport.Outcome;
import io.ppmr.source.SourceService;
import io.ppmr.source.keep.Keeping;
import io.ppmr.source.keep.Manifest;
import io.ppmr.target.TargetService;
import io.ppmr.transaction.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A copy of the images that is kept while they pass, and a job that is restarted from it. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class KeepIT {
    private static final int REFUSED = 4;
    /** As the JVM ends on SIGTERM. */
    private static final int TERMINATED = 128 + 15;

    /** What checkpointers do with files, and some things that none does. */
    private static final List<String> CALLS = List.of(
            "open image wcx",
            "write 300000",
            "seed 4",
            "pwrite 0 6000",
            "pwrite 100000 70001 4097",
            "seed 3",
            "pwrite 2000000 1000",
            "truncate 1500000",
            "pwrite 1600000 5",
            "close",
            "open a.tmp wcx",
            "write 200000",
            "rename a.tmp a",
            "write 1000",
            "close",
            "open late wcx",
            "write 5000",
            "close",
            "open early wcx",
            "seed 6",
            "write 9",
            "close",
            "rename early late",
            "mkdir below",
            "mkdir below/further",
            "open below/further/file wcx",
            "descend 0 500000 30000",
            "close",
            "rename below/further moved",
            "symlink a link",
            "open gone wcx",
            "write 100",
            "close",
            "unlink gone",
            "open empty wcx",
            "close",
            "open blank wcx",
            "truncate 3000000",
            "close",
            "open scattered wcx",
            "scatter 0 1m 5000 4",
            "close",
            "open again wcx",
            "write 9000",
            "close",
            "open again wct",
            "write 50",
            "close",
            "open again wa",
            "append 70000 3000",
            "close",
            "open cut wcx",
            "write 600000",
            "truncate 200000",
            "truncate 250000",
            "pwrite 300000 1000",
            "truncate 100",
            "truncate 350000",
            "close",
            "open bytes wcx",
            "write 10001 1",
            "close",
            "chmod 0400 a");

    @TempDir
    private Path directory;

    private Path copies;

    @BeforeEach
    void makeDirectory() throws IOException {
        copies = Files.createDirectory(directory.resolve("copies"));
        Files.setPosixFilePermissions(copies, PosixFilePermissions.fromString("rwx--x--x"));
    }

    private MigrationReport migrate(SourceService source, Job job, Keeping.Wish keep) throws InterruptedException {
        return source.migrate(
                "m" + System.nanoTime(),
                new MigrationOrder(job, List.of(), "a test", keep),
                new Cancellation(),
                progress -> {});
    }

    private PpmrCommand restart(String copy) throws Exception {
        return PpmrCommand.run("restart", copy, "--config", config().toString());
    }

    private Path config() throws IOException {
        Path config = directory.resolve("target.toml");
        Path key = directory.resolve("key");
        if (!Files.exists(key)) {
            Files.createFile(key, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
            Files.writeString(key, "a key that only this test knows, longer than 32 bytes\n");
            Files.writeString(
                    config,
                    """
                    listen = "127.0.0.1:7411"
                    mount = "%1$s/restart-mount"
                    work_directory = "%1$s/restart-work"
                    journal = "%1$s/restart-journal"
                    key_file = "%1$s/key"
                    rehearsals = 1
                    """.formatted(directory)
                            + LedgerJob.checkpointerToml(directory.resolve("job"))
                                    .replace("checkpointers.ledger", "checkpointers.command"));
        }
        return config;
    }

    private static void refused(PpmrCommand command, String... words) {
        assertEquals(REFUSED, command.exitCode(), command.said());
        for (String word : words) {
            assertTrue(command.said().contains(word), command.said());
        }
    }

    @Test
    void shouldRestartWithTheRightResultWhenTheMovedJobIsGone() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            MigrationReport report = migrate(source, job.job(), Keeping.Wish.in(copies));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.copy().kept(), report.copy().reason());
            assertTrue(report.copy().bytes() > 2 << 20, report.copy().sentence());
            assertTrue(nodes.journal("source").stream()
                    .anyMatch(record -> record instanceof TransactionRecord.CopyEnded copy
                            && copy.kept()
                            && copy.sentence().contains(report.copy().directory())));
            job.runsThere();
            job.killCopies();
            job.cutToSaved();
            Path copy = Path.of(report.copy().directory());
            requireOwnerOnly(copy);
            Path image = copy.resolve("rank-1/image");
            flip(image, 700_001);
            refused(restart(copy.toString()), "rank-1/image", "CRC32C");
            flip(image, 700_001);
            assertEquals(0, job.livingCopies(0), "a refused restart starts nothing");
            refused(restart(copies.toString()), "Name one of those in it", copy.toString());
            PpmrCommand restarted = restart(copy.toString());
            assertEquals(0, restarted.exitCode(), restarted.said());
            assertTrue(restarted.said().contains("computes twice"), restarted.said());
            job.runsThere();
            refused(restart(copy.toString()), "was restarted from this copy before");
        }
    }

    private static void requireOwnerOnly(Path copy) throws IOException {
        try (Stream<Path> all = Files.walk(copy)) {
            for (Path path : all.toList()) {
                String mode = PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
                assertTrue(mode.matches(path.equals(copy) ? "rwx--x--x" : "rw.------"), path + " has mode " + mode);
                int owner = (int) Files.getAttribute(path, "unix:uid");
                boolean users = path.startsWith(copy.resolve("rank-0")) || path.startsWith(copy.resolve("rank-1"));
                assertEquals(users ? ReplayJob.USER.uid() : 0, owner, path.toString());
            }
        }
    }

    private static void flip(Path file, int offset) throws IOException {
        byte[] bytes = Files.readAllBytes(file);
        bytes[offset] = (byte) (bytes[offset] ^ 1);
        Files.write(file, bytes);
    }

    @Test
    void shouldKeepTheCopyWhenTheMigrationIsRolledBackAndRestartOnceTheOriginalsAreGone() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 1)) {
            job.restarts(0, "read 1m", "eof", "open missing r");
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            MigrationReport report = migrate(source, job.job(), Keeping.Wish.in(copies));
            assertEquals(Outcome.ROLLED_BACK, report.outcome(), report.reason());
            assertTrue(report.copy().kept(), report.copy().reason());
            job.runsHere();
            job.restarts(0, "read 1m");
            refused(restart(report.copy().directory()), "still lives here as PID " + job.pid(0));
            job.runsHere();
            job.killOriginal(0);
            job.cutToSaved();
            PpmrCommand restarted = restart(report.copy().directory());
            assertEquals(0, restarted.exitCode(), restarted.said());
            job.runsThere();
        }
    }

    @Test
    void shouldRefuseToRestartWhenACopyIsIncompleteOrARestartFails() throws Exception {
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            MigrationReport report = migrate(source, job.job(), Keeping.Wish.in(copies));
            Path copy = Path.of(report.copy().directory());
            job.runsThere();
            job.killCopies();
            job.cutToSaved();
            Path partial = Files.move(copy, Path.of(copy + ".partial"));
            refused(restart(partial.toString()), "incomplete");
            Files.move(partial, copy);
            job.restarts(1, "open missing r");
            PpmrCommand failed = restart(copy.toString());
            assertEquals(1, failed.exitCode(), failed.said());
            assertTrue(failed.said().contains("rank 1 could not be restarted"), failed.said());
            assertEquals(0, job.livingCopies(0), "all or none are released");
            Files.delete(copy.resolve("rank-1/image"));
            refused(restart(copy.toString()), "rank-1/image is missing");
        }
    }

    // ---- ppmr restart --wait ---------------------------------------------------------------------------------------

    /** The job's two ranks are gone; what is kept of them. */
    private String keptAndGone(Nodes nodes, LedgerJob job) throws Exception {
        TargetService target = nodes.target("target", job.checkpointer());
        SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
        MigrationReport report = migrate(source, job.job(), Keeping.Wish.in(copies));
        assertTrue(report.copy().kept(), report.copy().reason());
        job.runsThere();
        job.killCopies();
        job.cutToSaved();
        return report.copy().directory();
    }

    /** A command that waits for what it has restarted, which runs by now. */
    private Process restartAndWait(String copy, Path said, LedgerJob job) throws Exception {
        Process waiting = new ProcessBuilder(
                        PpmrCommand.words("restart", copy, "--wait", "--config", config().toString()))
                .redirectErrorStream(true)
                .redirectOutput(said.toFile())
                .start();
        try {
            Conditions.until("both ranks run or the command has ended", () -> !waiting.isAlive()
                    || Files.readString(said).contains("rank 1 runs as PID"));
            job.runsThere();
            return waiting;
        } catch (Exception | AssertionError e) {
            waiting.destroyForcibly();
            throw new AssertionError(Files.readString(said), e);
        }
    }

    @Test
    void shouldWaitUntilEveryRankHasEndedByItselfOrFailed() throws Exception {
        Path said = directory.resolve("said");
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            Process waiting = restartAndWait(keptAndGone(nodes, job), said, job);
            try {
                job.killCopies(1);
                assertFalse(waiting.waitFor(1, TimeUnit.SECONDS), "rank 0 still runs: " + Files.readString(said));
                assertEquals(1, job.livingCopies(0), "that a rank fails ends no other");
                job.endsByItself(0);
                assertTrue(waiting.waitFor(20, TimeUnit.SECONDS), Files.readString(said));
                assertEquals(0, waiting.exitValue(), Files.readString(said));
                assertTrue(Files.readString(said).endsWith("all have ended\n"), Files.readString(said));
                assertEquals(0, job.livingCopies(0));
            } finally {
                waiting.destroyForcibly();
            }
        }
    }

    @Test
    void shouldLeaveTheJobRunningWhenTheWaitingIsInterrupted() throws Exception {
        Path said = directory.resolve("said");
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 2)) {
            Process waiting = restartAndWait(keptAndGone(nodes, job), said, job);
            try {
                waiting.destroy();
                assertTrue(waiting.waitFor(20, TimeUnit.SECONDS), Files.readString(said));
                assertEquals(TERMINATED, waiting.exitValue(), Files.readString(said));
                assertFalse(Files.readString(said).contains("all have ended"), Files.readString(said));
                job.runsThere();
            } finally {
                waiting.destroyForcibly();
            }
        }
    }

    // ---- what goes wrong -------------------------------------------------------------------------------------------

    @Test
    void shouldRemoveTheIncompleteCopyWhenTheServiceWasKilledAsItKept() throws Exception {
        Path nodes = Files.createDirectory(directory.resolve("nodes"));
        try (KillablePair pair = new KillablePair(nodes, "", "keep = \"" + copies + "\"");
                LedgerJob job = pair.job()) {
            job.checkpoints(1, "write 1m", "touch " + job.mark("half"), "await " + job.mark("go"), "write 1m");
            String id = pair.migrate();
            job.awaitMark("half");
            Conditions.until("the copy is begun", () -> !isEmpty(copies));
            pair.service(KillablePair.SOURCE).kill();
            assertFalse(isEmpty(copies), "nobody is there to remove it");
            Path another = Files.createDirectory(copies.resolve("another.partial"));
            pair.start(KillablePair.SOURCE);
            job.set("go");
            Conditions.until("only another's copy is left", () -> {
                try (Stream<Path> inside = Files.list(copies)) {
                    return inside.toList().equals(List.of(another));
                }
            });
            Conditions.until("the log says so", () -> pair.service(KillablePair.SOURCE)
                    .log()
                    .contains("migration " + id + ": the service died while it kept a copy"));
            job.runsHere();
            pair.awaitRecord(KillablePair.SOURCE, id, TransactionRecord.Done.class);
        }
    }

    @Test
    void shouldCommitAndKeepNothingWhenTheDiskIsFull() throws Exception {
        run("mount", "-t", "tmpfs", "-o", "size=1m,mode=0711", "small", copies.toString());
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 1)) {
            job.checkpoints(0, "write 8m");
            job.restarts(0, "read 8m");
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            MigrationReport report = migrate(source, job.job(), Keeping.Wish.in(copies));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.runsThere();
            assertFalse(report.copy().kept());
            assertTrue(
                    report.copy().reason().contains("No space left"),
                    report.copy().reason());
            Conditions.until("what was begun is removed", () -> isEmpty(copies));
        } finally {
            run("umount", copies.toString());
        }
    }

    @Test
    void shouldCommitInTimeAndKeepNothingWhenTheDiskIsSlow() throws Exception {
        try (SlowDisk disk = new SlowDisk(copies, 1000);
                Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 1)) {
            job.checkpoints(0, "write 32m");
            job.restarts(0, "read 32m");
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            Keeping.Bounds bounds = new Keeping.Bounds(1 << 20, Duration.ofMillis(200), Duration.ofSeconds(1));
            MigrationReport report = migrate(source, job.job(), new Keeping.Wish(Optional.of(copies), bounds));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.runsThere();
            assertFalse(report.copy().kept());
            assertTrue(report.copy().reason().contains("slower"), report.copy().reason());
            assertTrue(disk.writes() > 0, "something was written there");
            assertTrue(report.seconds() < 10, "256 writes of a second each, but it took " + report.seconds() + " s");
            Conditions.until("what was begun is removed", () -> isEmpty(copies));
        }
    }

    @Test
    void shouldKeepNothingAndSayWhyWhenOthersMayWriteInTheDirectory() throws Exception {
        Files.setPosixFilePermissions(copies, PosixFilePermissions.fromString("rwxrwxrwx"));
        try (Nodes nodes = new Nodes(directory);
                LedgerJob job = new LedgerJob(directory.resolve("job"), 1)) {
            TargetService target = nodes.target("target", job.checkpointer());
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            MigrationReport report = migrate(source, job.job(), Keeping.Wish.in(copies));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(
                    report.copy().reason().contains("can be written by others"),
                    report.copy().reason());
            assertTrue(isEmpty(copies));
        }
    }

    private static boolean isEmpty(Path folder) throws IOException {
        try (Stream<Path> inside = Files.list(folder)) {
            return inside.findAny().isEmpty();
        }
    }

    private static void run(String... words) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(words).inheritIO().start();
        assertTrue(process.waitFor(20, TimeUnit.SECONDS));
        assertEquals(0, process.exitValue(), String.join(" ", words));
    }

    // ---- what checkpointers do with files --------------------------------------------------------------------------

    @Test
    void shouldHaveTheSameFilesWhenTheyAreRenamedRewrittenCutAndFullOfHoles() throws Exception {
        try (ReplayJob job =
                        new ReplayJob(directory).retained().completes("image").rank(CALLS, List.of("open image r"));
                ServicePair pair = new ServicePair(
                        directory, ServicePair.Options.with(job.checkpointer()).staging(64 << 20))) {
            MigrationReport report = job.migrate(pair, Keeping.Wish.in(copies));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.copy().kept(), report.copy().reason());
            Path plain = Files.createDirectory(directory.resolve("plain"));
            assertEquals("", job.replayAs(0, plain, CALLS.toArray(String[]::new)));
            Path copy = Path.of(report.copy().directory());
            Map<String, String> kept = contents(copy.resolve("rank-0"));
            assertEquals(contents(plain), kept);
            assertEquals(kept.size(), Manifest.read(copy).entries().size());
        }
    }

    /** Every name with what is behind it. */
    private static Map<String, String> contents(Path folder) throws IOException {
        Map<String, String> contents = new TreeMap<>();
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path path : all.toList()) {
                String what = Files.isSymbolicLink(path)
                        ? "-> " + Files.readSymbolicLink(path)
                        : Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)
                                ? "a directory"
                                : Files.size(path) + " bytes, " + Arrays.hashCode(Files.readAllBytes(path));
                contents.put(folder.relativize(path).toString(), what);
            }
        }
        return contents;
    }
}
