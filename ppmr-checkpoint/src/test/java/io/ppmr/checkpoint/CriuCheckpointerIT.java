package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.data.ReadingMode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests the CRIU adapter with ordinary processes, on a plain directory. */
@Timeout(180)
class CriuCheckpointerIT {
    private static final String[] SMALL = {
        "--size", "32m", "--passes", "120", "--seed", "9", "--threads", "3", "--pace", "60"
    };

    private JobFixture fixture;
    private Path images;
    private Checkpointer criu;
    private Path mounted;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        images = fixture.userDirectory("images");
        criu = CheckpointerSettings.Criu.of(CriuInstall.program()).create("criu", fixture.programs);
    }

    @AfterEach
    void tearDown() throws Exception {
        if (fixture != null) {
            if (mounted != null) {
                run("umount", "--lazy", mounted.toString());
            }
            fixture.close();
        }
    }

    private static void run(String... command) throws CheckpointException {
        Command.CommandResult result = CommandStarter.call(List.of(command), JobFixture.LIMIT);
        assertEquals(0, result.exitCode(), result.describe());
    }

    @Test
    void shouldWriteNowhereElseWhenAUserPlantsLinksForLogsAndPids() throws Exception {
        Path canary = Files.writeString(fixture.base.resolve("canary"), "root's");
        Path work = fixture.work("planted");
        List<String> arguments = new ArrayList<>(List.of("plant", canary.toString()));
        for (String folder : List.of("rank-3", "rank-3/own", "rank-3/scratch")) {
            for (String name : List.of(
                    "criu-dump-3.log",
                    "criu-dump-3.out",
                    "stats-dump",
                    "criu-restore-3.log",
                    "criu-restore-3.out",
                    "criu-restore-3.pid",
                    "stats-restore")) {
                arguments.add(work.resolve(folder).resolve(name).toString());
            }
        }
        fixture.raceAsUser(arguments.toArray(String[]::new));
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        Path dump = WorkDirectories.create(work, 3);
        HeldRank original = JobFixture.finish(criu.checkpoint(new CheckpointTask(
                3,
                fixture.treeOf(job.root()),
                fixture.user,
                images,
                dump,
                JobFixture.LIMIT,
                Set.of(),
                Optional.empty())));
        assertEquals("root's", Files.readString(canary));
        WorkDirectories.remove(work);
        Path restore = WorkDirectories.create(work, 3);
        HeldRank copy =
                JobFixture.finish(criu.restart(new RestartTask(3, fixture.user, images, restore, JobFixture.LIMIT)));
        assertEquals("root's", Files.readString(canary));
        original.end(JobFixture.LIMIT);
        copy.release();
        fixture.requireResult(job);
    }

    private HeldRank dump(ProcessIdentity root, Path directory, String work) throws Exception {
        return JobFixture.finish(criu.checkpoint(fixture.checkpoint(3, root, directory, work)));
    }

    private HeldRank restore(Path directory, String work) throws Exception {
        return JobFixture.finish(criu.restart(fixture.restart(3, directory, work)));
    }

    @Tag("soak")
    @Test
    void shouldRestoreBesideTheHeldOriginalAndGoOnToTheRightResult() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        HeldRank original = dump(job.root(), images, "d1");
        original.requireHeld();
        assertEquals(2, original.processes().size());
        int passesBefore = job.passes();
        HeldRank restored = restore(images, "r1");
        restored.requireHeld();
        original.requireHeld();
        assertEquals(2, restored.processes().size());
        ProcessIdentity copy = restored.processes().get(0);
        assertEquals(fixture.table.pidInside(job.root()), fixture.table.pidInside(copy));
        assertNotEquals(job.root().pidNamespace(), copy.pidNamespace());
        assertEquals(passesBefore, job.passes());
        // The record as it is sent. CRIU restores each thread's rights and each open file.
        RightsBounds bounds = RightsBounds.standard(fixture.base.resolve("rights"));
        ArrivingPrivileges arriving = new ArrivingPrivileges(bounds.directory(), 0);
        try (ProcessPrivileges read = ProcessPrivileges.read("rank 0", original.processes(), bounds)) {
            read.send(10, 1000, (page, last) -> {
                try {
                    arriving.add(page);
                } catch (CheckpointException e) {
                    throw new IOException(e);
                }
            });
        }
        List<ThreadRights> threads = new ArrayList<>();
        ProcessPrivileges.threads(original.processes(), threads::add);
        ProcessPrivileges.threads(restored.processes(), thread -> threads.remove(0));
        assertEquals(List.of(), threads);
        try (ProcessPrivileges had = arriving.end()) {
            new PrivilegeCheck(fixture.programs, fixture.user, images, bounds).requireNoEscalation(restored, had);
        }
        original.end(JobFixture.LIMIT);
        restored.release();
        fixture.requireResult(job);
        assertEquals(120, job.passes());
        fixture.requireNothingLeft();
    }

    /** The target may have another file, with fewer or more rights. Only the original's record counts. */
    @Test
    void shouldRestoreWhatItHadAndNoMoreWhenItsProgramHasFileCapabilities() throws Exception {
        String program = fixture.bin.resolve("plain-job").toString();
        run("setcap", "cap_net_raw,cap_net_bind_service+ep", program);
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        String pid = Integer.toString(job.root().pid());
        assertEquals(0x2400, ProcStat.capabilities(pid, "CapPrm"));
        Map<Integer, List<ProcessIdentity>> trees = Map.of(3, List.of(job.root()));
        RankCapabilities capabilities = new RankCapabilities(fixture.table);
        capabilities.require(criu, trees, fixture.user);
        Checkpointer asUser = new CheckpointerSettings.Criu(
                        CriuInstall.program(), List.of(), List.of(), PagePolicy.IMAGES, true, NamespacePolicy.AUTO)
                .create("criu-user", fixture.programs);
        CheckpointException refused =
                assertThrows(CheckpointException.class, () -> capabilities.require(asUser, trees, fixture.user));
        assertTrue(
                refused.getMessage().contains("PID " + pid + " (plain-job) has the capabilities 2400"),
                refused.getMessage());
        HeldRank original = dump(job.root(), images, "d1");
        RightsBounds bounds = RightsBounds.standard(fixture.base.resolve("rights"));
        HeldRank restored;
        try (ProcessPrivileges had = ProcessPrivileges.read("rank 0", original.processes(), bounds)) {
            run("setcap", "cap_net_raw,cap_sys_admin+ep", program);
            restored = restore(images, "r1");
            new PrivilegeCheck(fixture.programs, fixture.user, images, bounds).requireNoEscalation(restored, had);
        }
        String copy = Integer.toString(restored.processes().get(0).pid());
        for (String set : List.of("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")) {
            assertEquals(ProcStat.capabilities(pid, set), ProcStat.capabilities(copy, set), set);
        }
        original.end(JobFixture.LIMIT);
        restored.release();
        fixture.requireResult(job);
    }

    /** The kernel shows another process's securebits nowhere, so the comparison lacks them. CRIU restores them. */
    @Test
    void shouldGiveTheCopyItsOriginalsSecurebitsWhenRootRestores() throws Exception {
        Path bits = fixture.userDirectory("bits").resolve("bits");
        // Prints its own (PR_GET_SECUREBITS) at its start and at each SIGUSR1.
        String script = "my $prctl = qx{uname -m} =~ /aarch64/ ? 167 : 157;"
                + " $SIG{USR1} = sub { open my $out, '>>', $ARGV[0]; print $out syscall($prctl, 27), qq{\\n} };"
                + " kill USR1 => $$; while (1) { select undef, undef, undef, 0.1 }";
        Process process = new ProcessBuilder(
                        "setpriv",
                        "--securebits=+noroot,+noroot_locked",
                        "--reuid=" + fixture.user.uid(),
                        "--regid=" + fixture.user.gid(),
                        "--clear-groups",
                        "setsid",
                        "perl",
                        "-e",
                        script,
                        bits.toString())
                .redirectInput(ToolProcess.NULL)
                .redirectErrorStream(true)
                .redirectOutput(ToolProcess.NULL)
                .start();
        assertTrue(Polling.until(JobFixture.LIMIT, () -> Files.exists(bits)), "the job prints nothing");
        HeldRank original = dump(fixture.table.of((int) process.pid()), images, "d1");
        HeldRank restored = restore(images, "r1");
        original.end(JobFixture.LIMIT);
        restored.release();
        run("kill", "-USR1", Integer.toString(restored.processes().get(0).pid()));
        Polling.until(JobFixture.LIMIT, () -> lines(bits).size() > 1);
        assertEquals(List.of("3", "3"), lines(bits));
    }

    private static List<String> lines(Path file) {
        try {
            return Files.readAllLines(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Tag("soak")
    @Test
    void shouldGoOnToTheRightResultWhenMovedTwice() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        HeldRank first = dump(job.root(), images, "d1");
        HeldRank second = restore(images, "r1");
        first.end(JobFixture.LIMIT);
        second.release();
        int passes = job.passes();
        assertTrue(Polling.until(JobFixture.LIMIT, () -> job.passes() > passes), "the restored job is stopped");

        // A mount that the node makes later and that the rank's namespace does not have.
        Path again = fixture.userDirectory("images-again");
        run("mount", "-t", "tmpfs", "-o", "mode=700", "ppmr-test", again.toString());
        mounted = again;
        HeldRank rank = second;
        run(
                "nsenter",
                "--target",
                "" + rank.helperProcesses().get(0).pid(),
                "--mount",
                "--",
                "sh",
                "-c",
                "! mountpoint -q \"$1\" || umount \"$1\"",
                "sh",
                again.toString());
        HeldRank held = dump(second.processes().get(0), again, "d2");
        held.requireHeld();
        HeldRank third = restore(again, "r2");
        third.requireHeld();
        held.requireHeld();
        assertEquals(2, third.processes().size());
        assertNotEquals(
                second.processes().get(0).pidNamespace(),
                third.processes().get(0).pidNamespace());
        held.end(JobFixture.LIMIT);
        third.release();
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    @Test
    void shouldGoOnToTheRightResultWhenTheOriginalIsReleased() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        HeldRank original = dump(job.root(), images, "d1");
        HeldRank restored = restore(images, "r1");
        restored.end(JobFixture.LIMIT);
        original.requireHeld();
        original.release();
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    private ProcessIdentity stopAChild(JobFixture.Job job) throws Exception {
        ProcessIdentity child = fixture.table.tree(job.root()).get(1);
        fixture.signals.send(SignalSender.Signal.STOP, child);
        assertTrue(Polling.until(JobFixture.LIMIT, () -> fixture.table.isHeld(child)));
        return child;
    }

    private void letItEnd(JobFixture.Job job, ProcessIdentity root, ProcessIdentity child) throws Exception {
        assertTrue(Polling.until(JobFixture.LIMIT, () -> fixture.table.isRunning(root)));
        assertTrue(fixture.table.isHeld(child), "the job had stopped it");
        fixture.signals.send(SignalSender.Signal.CONT, child);
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldLeaveTheCopyStoppedWhenTheJobHadStoppedAChild() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        ProcessIdentity child = stopAChild(job);
        HeldRank original = dump(job.root(), images, "d1");
        original.requireHeld();
        assertEquals(Set.of(child), original.stoppedByJob());
        HeldRank restored = restore(images, "r1");
        Set<ProcessIdentity> stopped = StoppedProcesses.of(original).among(restored);
        ProcessIdentity copy = restored.processes().get(1);
        assertEquals(Set.of(copy), stopped);
        original.requireHeld();
        original.end(JobFixture.LIMIT);
        restored.withStoppedByJob(stopped).release();
        letItEnd(job, restored.processes().get(0), copy);
    }

    @Tag("soak")
    @Test
    void shouldLeaveTheOriginalStoppedWhenTheJobHadStoppedAChildAndItIsReleased() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        ProcessIdentity child = stopAChild(job);
        HeldRank first = dump(job.root(), images, "d1");
        assertEquals(Set.of(child), first.stoppedByJob());
        // This repeats it as another attempt does. Every process is stopped by now.
        HeldRank again = JobFixture.finish(criu.checkpoint(new CheckpointTask(
                3,
                fixture.treeOf(job.root()),
                fixture.user,
                fixture.userDirectory("images-again"),
                fixture.work("d2"),
                JobFixture.LIMIT,
                first.stoppedByJob(),
                Optional.empty())));
        assertEquals(Set.of(child), again.stoppedByJob());
        again.requireHeld();
        again.release();
        letItEnd(job, job.root(), child);
    }

    @Tag("soak")
    @Test
    void shouldLetAChildRunWhenItWasContinuedBeforeItsCheckpoint() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        ProcessIdentity child = stopAChild(job);
        CheckpointTask task = fixture.checkpoint(3, job.root(), images, "d1");
        assertEquals(Set.of(child), task.stoppedByJob());
        fixture.signals.send(SignalSender.Signal.CONT, child);
        assertTrue(Polling.until(JobFixture.LIMIT, () -> fixture.table.isRunning(child)));
        HeldRank original = JobFixture.finish(criu.checkpoint(task));
        assertEquals(Set.of(), original.stoppedByJob());
        original.release();
        fixture.requireResult(job);
    }

    @Tag("soak")
    @Test
    void shouldCheckpointARankThatIsHeldAlready() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        HeldRank held = dump(job.root(), images, "d1");
        assertTrue(criu.checkpointsHeldRanks());
        Path again = fixture.userDirectory("images-again");
        HeldRank heldAgain = dump(job.root(), again, "d2");
        assertEquals(held.processes(), heldAgain.processes());
        HeldRank restored = restore(again, "r1");
        restored.requireHeld();
        heldAgain.end(JobFixture.LIMIT);
        restored.release();
        fixture.requireResult(job);
    }

    @Tag("soak")
    @Test
    void shouldLeaveNothingWhenTheImagesAreDamaged() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        HeldRank original = dump(job.root(), images, "d1");
        Path core = images.resolve("core-" + job.root().pid() + ".img");
        try (FileChannel file = FileChannel.open(core, StandardOpenOption.WRITE)) {
            file.truncate(file.size() / 2);
        }
        String message = assertThrows(CheckpointException.class, () -> restore(images, "r1"))
                .getMessage();
        assertTrue(message.contains("rank 3") && message.contains("criu-restore-3.log"), message);
        original.requireHeld();
        original.release();
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldRefuseARestartWhoseSharedPagesAreCutOff() throws Exception {
        // CRIU 4.1.1 logs that it cannot read them, continues, and ends with status 0.
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        HeldRank original = dump(job.root(), images, "d1");
        try (FileChannel pages = FileChannel.open(images.resolve("pages-1.img"), StandardOpenOption.WRITE)) {
            pages.truncate(pages.size() / 2);
        }
        String message = assertThrows(CheckpointException.class, () -> restore(images, "r1"))
                .getMessage();
        assertTrue(message.contains("could not read"), message);
        original.requireHeld();
        original.end(JobFixture.LIMIT);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldEndACriuThatSpinsWhenPrivatePagesAreCutOff() throws Exception {
        // CRIU 4.1.1 reads for ever at the end of the file. Only the deadline ends it.
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        HeldRank original = dump(job.root(), images, "d1");
        try (FileChannel pages = FileChannel.open(images.resolve("pages-2.img"), StandardOpenOption.WRITE)) {
            pages.truncate(pages.size() / 2);
        }
        RankCommand command =
                criu.restart(new RestartTask(3, fixture.user, images, fixture.work("r1"), Duration.ofSeconds(3)));
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("limit"), message);
        original.requireHeld();
        original.end(JobFixture.LIMIT);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldLeaveNothingWhenThereAreNoImages() throws Exception {
        String message = assertThrows(CheckpointException.class, () -> restore(images, "r1"))
                .getMessage();
        assertTrue(message.contains("rank 3"), message);
        fixture.requireNothingLeft();
    }

    @Test
    void shouldLeaveNothingWhenARestartThatWaitsForItsImageIsCancelled() throws Exception {
        // A FIFO without a writer replaces an inventory that has not arrived.
        Path fifo = images.resolve("inventory.img");
        assertEquals(
                0,
                CommandStarter.call(List.of("mkfifo", "-m", "666", fifo.toString()), JobFixture.LIMIT)
                        .exitCode());
        RankCommand command = criu.restart(fixture.restart(3, images, "r1"));
        assertEquals(null, command.await(Duration.ofMillis(500)));
        command.cancel();
        assertThrows(CheckpointException.class, () -> JobFixture.finish(command));
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldLetTheOriginalRunWhenTheDumpFails() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        Path nowhere = fixture.base.resolve("no-such-directory");
        String message = assertThrows(CheckpointException.class, () -> dump(job.root(), nowhere, "d1"))
                .getMessage();
        assertTrue(message.contains("rank 3"), message);
        assertTrue(fixture.table.isRunning(job.root()));
        fixture.requireResult(job);
    }

    @Tag("soak")
    @Test
    void shouldLetTheOriginalRunWhenCancelled() throws Exception {
        JobFixture.Job job = fixture.start("plain-job", "a", SMALL);
        RankCommand command = criu.checkpoint(fixture.checkpoint(3, job.root(), images, "d1"));
        command.cancel();
        assertThrows(CheckpointException.class, () -> JobFixture.finish(command));
        assertTrue(fixture.table.isRunning(job.root()));
        fixture.requireResult(job);
    }

    /** CRIU as the user could not make a copy with the missing capability, and its threads would fail. */
    @Test
    void shouldRefuseByNameAsTheJobsUserWhenTheBoundingSetIsNotFull() throws Exception {
        Checkpointer asUser =
                CheckpointerSettings.Criu.asJobUser(CriuInstall.program()).create("criu", fixture.programs);
        Process process = new ProcessBuilder(
                        "setpriv",
                        "--bounding-set=-sys_nice",
                        "setpriv",
                        "--reuid=" + JobFixture.USER.uid(),
                        "--regid=" + JobFixture.USER.gid(),
                        "--clear-groups",
                        "sleep",
                        "100")
                .start();
        try {
            assertTrue(Polling.until(JobFixture.LIMIT, () -> fixture.table
                    .name(fixture.table.find((int) process.pid()).orElseThrow())
                    .equals(Optional.of("sleep"))));
            ProcessIdentity root = fixture.table.of((int) process.pid());
            CheckpointTask task = new CheckpointTask(
                    3,
                    fixture.treeOf(root),
                    JobFixture.USER,
                    images,
                    fixture.work("d1"),
                    JobFixture.LIMIT,
                    Set.of(),
                    Optional.empty());
            String message = assertThrows(CheckpointException.class, () -> asUser.checkpoint(task))
                    .getMessage();
            assertTrue(message.contains("800000 in its bounding set of capabilities"), message);
            assertTrue(message.contains("as_job_user = false"), message);
            assertTrue(fixture.table.isRunning(root));
        } finally {
            process.destroyForcibly().waitFor();
        }
    }

    @Test
    void shouldSayWhatIsMissingWhenProbed() throws Exception {
        assertTrue(criu.probe().available(), criu.probe().toString());
        Availability none = CheckpointerSettings.Criu.of(List.of("criu-nothing"))
                .create("criu", fixture.programs)
                .probe();
        assertFalse(none.available());
        assertTrue(
                none.detail().contains("criu-nothing is not installed")
                        && !none.remedy().isEmpty(),
                none.toString());
        Availability helpers = CheckpointerSettings.Criu.of(CriuInstall.program())
                .create("criu", new NativePrograms(fixture.base))
                .probe();
        assertFalse(helpers.available());
        assertTrue(helpers.detail().contains("ppmr-launch"), helpers.toString());
    }

    @Test
    void shouldAnnounceTheInventoryAsTheMarkOfCompletion() {
        assertEquals(List.of("inventory.img"), criu.expectedNames(3));
        assertEquals(List.of("inventory.img"), criu.completionNames(3));
        assertEquals(ReadingMode.RETAINED, criu.readingMode());
        assertTrue(Files.isDirectory(images));
    }
}
