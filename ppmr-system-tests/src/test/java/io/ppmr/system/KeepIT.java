package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.keep.ImageManifest;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.target.TargetService;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.TransactionRecord;
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
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A copy of the images that is kept while they pass. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class KeepIT {
    /** Calls that checkpointers make with files, and some that none makes. */
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

    static MigrationReport migrate(SourceService source, Job job, Keeping.KeepRequest keep)
            throws InterruptedException {
        return source.migrate(
                "m" + System.nanoTime(),
                new MigrationOrder(job, List.of(), "a test", keep),
                new Cancellation(),
                progress -> {});
    }

    @Tag("soak")
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
            MigrationReport report = migrate(source, job.job(), Keeping.KeepRequest.in(copies));
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

    @Tag("soak")
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
            MigrationReport report = migrate(source, job.job(), new Keeping.KeepRequest(Optional.of(copies), bounds));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            job.runsThere();
            assertFalse(report.copy().kept());
            assertTrue(report.copy().reason().contains("slower"), report.copy().reason());
            assertTrue(disk.writes() > 0, "something was written there");
            assertTrue(
                    report.times().seconds() < 10,
                    "256 writes of a second each, but it took " + report.times().seconds() + " s");
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
            MigrationReport report = migrate(source, job.job(), Keeping.KeepRequest.in(copies));
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
        assertTrue(process.waitFor(Patience.of(60), TimeUnit.SECONDS));
        assertEquals(0, process.exitValue(), String.join(" ", words));
    }

    // ---- what checkpointers do with files --------------------------------------------------------------------------

    @Tag("soak")
    @Test
    void shouldHaveTheSameFilesWhenTheyAreRenamedRewrittenCutAndFullOfHoles() throws Exception {
        try (ReplayJob job =
                        new ReplayJob(directory).retained().completes("image").rank(CALLS, List.of("open image r"));
                ServicePair pair = new ServicePair(
                        directory, ServicePair.Options.with(job.checkpointer()).staging(64 << 20))) {
            MigrationReport report = job.migrate(pair, Keeping.KeepRequest.in(copies));
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            assertTrue(report.copy().kept(), report.copy().reason());
            Path plain = Files.createDirectory(directory.resolve("plain"));
            assertEquals("", job.replayAs(0, plain, CALLS.toArray(String[]::new)));
            Path copy = Path.of(report.copy().directory());
            Map<String, String> kept = contents(copy.resolve("rank-0"));
            assertEquals(contents(plain), kept);
            assertEquals(kept.size(), ImageManifest.read(copy).entries().size());
        }
    }

    /** Returns every name with its content. */
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
