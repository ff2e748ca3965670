package io.ppmr.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.SourceRequests;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.jobs.JobSources;
import io.ppmr.daemon.service.Migrations;
import io.ppmr.daemon.service.MoveOptions;
import io.ppmr.linux.LibC;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.transaction.operator.Resolution;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AnnouncedJobsTest {
    private static final int STRANGER = 20_002;
    private static final InetSocketAddress TARGET = InetSocketAddress.createUnresolved("192.0.2.20", 7411);

    @TempDir
    private Path directory;

    private final ProcessIdentity self =
            new ProcessTable().find((int) ProcessHandle.current().pid()).orElseThrow();
    private final Checkpointer checkpointer =
            CheckpointerSettings.Criu.of(List.of("criu")).create("criu", new NativePrograms(Path.of("/nowhere")));
    private AnnouncedJobs jobs;
    private int uid;
    private Path folder;

    @BeforeEach
    void setUp() throws Exception {
        jobs = new AnnouncedJobs(directory.resolve("announced"), Map.of("criu", checkpointer), Set.of("criu"));
        jobs.prepare();
        Path users = jobs.folderOf(ProcessHandle.current().info().user().orElseThrow());
        uid = Integer.parseUnsignedInt(users.getFileName().toString());
        folder = Files.createDirectory(users.resolve("slurm-7.0"));
    }

    private JobName name(String name) {
        return new JobName(uid, name);
    }

    private Path announce(int rank, long startTicks, String tool) throws IOException {
        return Files.writeString(
                folder.resolve("rank-" + rank),
                "pid = " + self.pid() + "\nstart_ticks = " + startTicks + "\ncheckpointer = \"" + tool + "\"\n");
    }

    @Test
    void shouldLetNobodyButTheServiceMakeNamesWhenPrepared() throws Exception {
        // The folder is as an earlier release left it, with files that one user wrote in another's name.
        Path all = directory.resolve("announced/jobs");
        Files.setAttribute(all, "unix:mode", 01777);
        Path planted = Files.createDirectory(all.resolve("4000000"));
        Files.createDirectory(planted.resolve("slurm-9.0"));
        jobs.prepare();
        assertEquals(0755, (Integer) Files.getAttribute(all, "unix:mode") & 07777);
        assertEquals(0755, (Integer) Files.getAttribute(directory.resolve("announced/moves"), "unix:mode") & 07777);
        assertEquals(List.of(), jobs.named("4000000/slurm-9.0", Optional.empty()));
        assertThrows(RequestException.class, () -> jobs.find(new JobName(4_000_000, "slurm-9.0")));
    }

    private static List<String> namesIn(Path of) throws IOException {
        try (Stream<Path> names = Files.list(of)) {
            return names.map(name -> name.getFileName().toString()).sorted().toList();
        }
    }

    /** The user fills each folder that is the user's, as fast as it can, so that it cannot simply be removed. */
    @Test
    void shouldLeaveNoFolderButTheUsersWhenTheUserFillsEachOneThatItIsGiven() throws Exception {
        Assumptions.assumeTrue(LibC.isRoot(), "needs root, which gives folders away");
        Path all = directory.resolve("announced/jobs");
        for (Path parent : List.of(directory, directory.resolve("announced"))) {
            Files.setAttribute(parent, "unix:mode", 0755);
        }
        String uidOfUser = Integer.toString(STRANGER);
        Process filling = new ProcessBuilder(
                        "setpriv",
                        "--reuid=" + uidOfUser,
                        "--regid=" + uidOfUser,
                        "--clear-groups",
                        "perl",
                        "-e",
                        "$| = 1; print qq(on\\n); while (1) { mkdir qq($_/x) for glob qq($ARGV[0]/.[0-9a-f]*) }",
                        all.toString())
                .directory(new File("/"))
                .redirectErrorStream(true)
                .start();
        try {
            assertEquals('o', filling.getInputStream().read());
            for (int i = 0; i < 500; i++) {
                Path given = jobs.folderOf(uidOfUser);
                assertEquals(STRANGER, Files.getAttribute(given, "unix:uid"));
                if (i % 10 == 5) {
                    // Each time as if it were the first.
                    Files.deleteIfExists(given);
                }
            }
            assertTrue(filling.isAlive(), "nothing was attacked");
        } finally {
            filling.destroyForcibly().waitFor();
        }
        assertEquals(List.of(Integer.toString(uid), uidOfUser).stream().sorted().toList(), namesIn(all));
    }

    @Test
    void shouldRemoveWhatEarlierServicesLeftWhenItIsPrepared() throws Exception {
        Path all = directory.resolve("announced/jobs");
        Files.createDirectories(all.resolve(".123456/x"));
        Files.createDirectories(all.resolve(".4000000.77/slurm-1.0"));
        jobs.prepare();
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (namesIn(all).size() > 1 && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(1_000_000);
        }
        assertEquals(List.of(Integer.toString(uid)), namesIn(all));
    }

    /** The service writes as root, so a user cannot choose the place. */
    @Test
    void shouldLetAJobsOwnerMoveItButNotSayWhereACopyIsKept() throws Exception {
        announce(2, self.startTimeTicks(), "criu");
        String owner = Files.getOwner(folder).getName();
        Migrations migrations = new Migrations(
                Map.of(),
                Optional.empty(),
                new MigrationQueue(
                        (id, order, cancellation, watcher) -> report(MigrationReport.Outcome.REFUSED, List.of())),
                new JobSources(List.of(jobs), true));
        SourceRequests requests = new SourceRequests(
                migrations,
                () -> null,
                () -> null,
                List::of,
                (id, word, carryOut, by) -> new Resolution(id, Resolution.ResolutionResult.REFUSED, "not known here"));
        assertTrue(requests.isOwner(new ControlRequest.Migrate("slurm-7.0", List.of(), null, null, true), owner));
        assertFalse(requests.isOwner(new ControlRequest.Migrate("slurm-7.0", List.of(), "/etc", null, true), owner));
        assertFalse(
                requests.isOwner(new ControlRequest.Migrate(null, List.of(), null, null, true), owner),
                "the trigger's");
    }

    /** Each failure is in the journal for a month. */
    @Test
    void shouldRefuseByNameWhenAUsersMigrationsFailOneAfterTheOther() throws Exception {
        announce(2, self.startTimeTicks(), "criu");
        String owner = Files.getOwner(folder).getName();
        AtomicInteger begun = new AtomicInteger();
        Migrations migrations = new Migrations(
                Map.of(),
                Optional.empty(),
                new MigrationQueue((id, order, cancellation, watcher) -> {
                    begun.incrementAndGet();
                    return report(MigrationReport.Outcome.ROLLED_BACK, List.of());
                }),
                new JobSources(List.of(jobs), true));
        RequestException refusal = null;
        int started = 0;
        while (started < 100 && refusal == null) {
            CountDownLatch ended = new CountDownLatch(1);
            try {
                migrations.start(
                        "slurm-7.0", Optional.of(owner), MoveOptions.NONE, "its owner", event -> ended.countDown());
                started++;
                assertTrue(ended.await(30, TimeUnit.SECONDS));
            } catch (RequestException e) {
                refusal = e;
            }
        }
        assertTrue(refusal != null && refusal.getMessage().contains("moved nothing"), String.valueOf(refusal));
        assertTrue(started > 3, "a few failures cost no wait");
        assertEquals(started, begun.get(), "nothing is done for a request that is refused");
        CountDownLatch ended = new CountDownLatch(1);
        // A user who controls the service is not delayed by it.
        migrations.start("slurm-7.0", "root", event -> ended.countDown());
        assertTrue(ended.await(30, TimeUnit.SECONDS));
    }

    @Test
    void shouldFindAJobOfTheFoldersOwnerWhenItsRanksRun() throws Exception {
        announce(10, self.startTimeTicks(), "criu");
        announce(2, self.startTimeTicks(), "criu");
        ConfiguredJob job = jobs.find(name("slurm-7.0")).orElseThrow();
        assertEquals(Files.getAttribute(folder, "unix:uid"), job.user().uid());
        assertEquals(
                List.of(2, 10),
                job.ranks().stream().map(ConfiguredJob.RankSource::rank).toList());
        assertEquals(self.pid(), job.ranks().get(0).pid());
        assertEquals(List.of(name("slurm-7.0")), jobs.names());
        String owner = Files.getOwner(folder).getName();
        assertTrue(jobs.isOwnedBy("slurm-7.0", owner));
        assertFalse(jobs.isOwnedBy("slurm-7.0", owner + "x"));
        assertFalse(jobs.isOwnedBy("slurm-8.0", owner));
        assertFalse(jobs.isOwnedBy("..", owner));
    }

    @Test
    void shouldRefuseACheckpointerThatIsNotMarked() throws Exception {
        announce(0, self.startTimeTicks(), "criu");
        AnnouncedJobs unmarked =
                new AnnouncedJobs(directory.resolve("announced"), Map.of("criu", checkpointer), Set.of("blcr"));
        RequestException e = assertThrows(RequestException.class, () -> unmarked.find(name("slurm-7.0")));
        assertTrue(e.getMessage().contains("checkpointer criu is not marked for announced jobs"), e.getMessage());
        assertTrue(e.getMessage().contains("for_announced_jobs = true in [checkpointers.criu]"), e.getMessage());
        assertEquals(List.of(), unmarked.names());
    }

    @Test
    void shouldFindNoneWhenThePidIsAnotherProcessByNow() throws Exception {
        announce(0, self.startTimeTicks() - 1, "criu");
        assertEquals(Optional.empty(), jobs.find(name("slurm-7.0")));
        assertEquals(List.of(), jobs.names());
    }

    @Test
    void shouldFindNoneWhenTheNameLeadsElsewhereOrNothingIsTaken() throws Exception {
        announce(0, self.startTimeTicks(), "criu");
        assertEquals(List.of(), jobs.named("../jobs/slurm-7.0", Optional.empty()));
        assertEquals(Optional.empty(), jobs.find(name("slurm-8.0")));
        assertEquals(Optional.empty(), JobSources.NONE.find(name("slurm-7.0")));
    }

    @Test
    void shouldRefuseWhenAnAnnouncementIsWrong() throws Exception {
        announce(0, self.startTimeTicks(), "dmtcp");
        assertRefused("[checkpointers.dmtcp]");
        announce(1, self.startTimeTicks(), "criu");
        assertRefused("different checkpointers");
        Files.writeString(folder.resolve("rank-0"), "pid = \"one\"\n");
        assertRefused("must hold pid");
        assertEquals(List.of(), jobs.names());
    }

    @Test
    void shouldAskTheJobsOwnSparesWhenItNamesSome() throws Exception {
        Path file = announce(0, self.startTimeTicks(), "criu");
        assertEquals(List.of(), jobs.find(name("slurm-7.0")).orElseThrow().spares());
        String text = Files.readString(file);
        Files.writeString(file, text + "spares = [\"n0:7411\", \"192.0.2.7:99\"]\n");
        assertEquals(
                List.of("n0:7411", "192.0.2.7:99"),
                jobs.find(name("slurm-7.0")).orElseThrow().spares().stream()
                        .map(spare -> spare.getHostString() + ":" + spare.getPort())
                        .toList());
        for (String wrong : List.of("\"n0\"", "[\"n0\"]", "[7411]", "[\"n0:99999\"]", "[\"a b:1\"]")) {
            Files.writeString(file, text + "spares = " + wrong + "\n");
            assertRefused("spares must be a list of HOST:PORT");
        }
    }

    private void assertRefused(String words) {
        RequestException refused = assertThrows(RequestException.class, () -> jobs.find(name("slurm-7.0")));
        assertTrue(refused.getMessage().contains(words), refused.getMessage());
    }

    @Test
    void shouldNotFollowALinkWhenARankFileIsOne() throws Exception {
        Path elsewhere = Files.move(announce(0, self.startTimeTicks(), "criu"), directory.resolve("elsewhere"));
        Files.createSymbolicLink(folder.resolve("rank-0"), elsewhere);
        assertRefused("rank-0 is a symbolic link");
    }

    @Test
    void shouldNotWaitWhenARankFileIsAFifo() throws Exception {
        Process mkfifo = new ProcessBuilder("mkfifo", folder.resolve("rank-0").toString()).start();
        assertEquals(0, mkfifo.waitFor());
        assertRefused("rank-0 is no regular file");
    }

    @Test
    void shouldNotWaitWhenAJobsFolderIsAFifo() throws Exception {
        announce(0, self.startTimeTicks(), "criu");
        Process mkfifo =
                new ProcessBuilder("mkfifo", folder.resolveSibling("fifo").toString()).start();
        assertEquals(0, mkfifo.waitFor());
        // One user's name stops no other process's job.
        assertEquals(List.of(name("slurm-7.0")), jobs.names());
        RequestException refused = assertThrows(RequestException.class, () -> jobs.find(name("fifo")));
        assertTrue(refused.getMessage().contains("fifo is no directory"), refused.getMessage());
    }

    @Test
    void shouldNotFollowALinkWhenAJobsFolderIsOne() throws Exception {
        announce(0, self.startTimeTicks(), "criu");
        Files.createSymbolicLink(folder.resolveSibling("link"), folder);
        RequestException refused = assertThrows(RequestException.class, () -> jobs.find(name("link")));
        assertTrue(refused.getMessage().contains("link is no directory"), refused.getMessage());
    }

    @Test
    void shouldReadNoMoreThanTheLimitWhenARankFileIsLarge() throws Exception {
        try (RandomAccessFile file =
                new RandomAccessFile(folder.resolve("rank-0").toFile(), "rw")) {
            file.setLength(1L << 30);
        }
        assertRefused("longer than");
    }

    @Test
    void shouldRefuseWhenAFileIsNotTheFoldersOwners() throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(folder, "unix:uid", LinkOption.NOFOLLOW_LINKS)
                        .equals(0),
                "needs root: chown");
        Files.setAttribute(announce(0, self.startTimeTicks(), "criu"), "unix:uid", STRANGER);
        assertRefused("does not belong to the folder's owner");
    }

    @Test
    void shouldWriteWhatBecameOfAJobWhenItsMigrationEnds() throws Exception {
        Path record = directory.resolve("announced/moves/" + uid + "/slurm-7.0");
        jobs.begins(name("slurm-7.0"), List.of(), false);
        assertEquals("underway\n", Files.readString(record));
        List<MigrationReport.MovedRank> ranks = List.of(
                new MigrationReport.MovedRank(0, List.of(12, 13)), new MigrationReport.MovedRank(2, List.of(14)));
        jobs.ended(name("slurm-7.0"), Optional.of(report(MigrationReport.Outcome.COMMITTED, ranks)), List.of(TARGET));
        assertEquals("committed 192.0.2.20:7411\nrank 0 12,13\nrank 2 14\n", Files.readString(record));
        jobs.ended(
                name("slurm-7.0"),
                Optional.of(report(MigrationReport.Outcome.ROLLED_BACK, List.of())),
                List.of(TARGET));
        assertEquals("rolled-back\n", Files.readString(record));
        jobs.ended(
                name("slurm-7.0"), Optional.of(report(MigrationReport.Outcome.IN_DOUBT, List.of())), List.of(TARGET));
        assertEquals("in-doubt 192.0.2.20:7411\n", Files.readString(record));
        jobs.ended(name("slurm-7.0"), Optional.empty(), List.of());
        assertEquals("failed\n", Files.readString(record));
        assertEquals(0644, (Integer) Files.getAttribute(record, "unix:mode") & 07777);
    }

    private static MigrationReport report(MigrationReport.Outcome outcome, List<MigrationReport.MovedRank> ranks) {
        return new MigrationReport(
                "id",
                "criu",
                "",
                outcome,
                "",
                MigrationReport.MovedImages.NONE,
                MigrationReport.MigrationTimes.NONE,
                MigrationReport.ServiceMemory.NONE,
                ranks,
                null,
                false);
    }
}
