package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.linux.ProcessIdentity;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests the BLCR adapter with a real job that checkpoints itself, on a plain directory. */
@Timeout(120)
class BlcrCheckpointerIT {
    private static final String[] SMALL = {"--size", "70m", "--passes", "80", "--seed", "7", "--pace", "50"};

    private JobFixture fixture;
    private Path images;
    private Checkpointer blcr;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        images = fixture.userDirectory("images");
        blcr = blcr(NamespacePolicy.AUTO);
    }

    @AfterEach
    void tearDown() throws Exception {
        if (fixture != null) {
            fixture.close();
        }
    }

    private Checkpointer blcr(NamespacePolicy policy) {
        RankCommand.Timing timing = new RankCommand.Timing(
                Duration.ofSeconds(5), Duration.ofSeconds(2), Duration.ofSeconds(5), Duration.ofSeconds(5));
        return new CheckpointerSettings.Blcr(
                        fixture.bin.resolve("cr_checkpoint").toString(),
                        fixture.bin.resolve("cr_restart").toString(),
                        false,
                        policy)
                .create("blcr", fixture.programs, timing);
    }

    @Test
    void shouldGoOnToTheRightResultWhenMoved() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        HeldRank original = JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")));
        original.requireHeld();
        int passesBefore = job.passes();
        assertTrue(Files.size(images.resolve("context.0")) > 70 << 20);
        assertEquals(JobFixture.USER.uid(), Files.getAttribute(images.resolve("context.0"), "unix:uid"));

        HeldRank restored = JobFixture.finish(blcr.restart(fixture.restart(0, images, "r")));
        restored.requireHeld();
        original.requireHeld();
        assertEquals(1, restored.processes().size());
        assertFalse(restored.processes().contains(job.root()));
        assertEquals(passesBefore, job.passes());

        original.end(JobFixture.LIMIT);
        assertFalse(fixture.table.isAlive(job.root()));
        restored.release();
        fixture.requireResult(job);
        assertEquals(80, job.passes());
        fixture.requireNothingLeft();
    }

    /** Tests a further attempt after the first one's target was lost. */
    @Tag("soak")
    @Test
    void shouldGoOnToTheRightResultWhenAHeldRankIsWrittenAgain() throws Exception {
        assertTrue(blcr.checkpointsHeldRanks());
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")))
                .requireHeld();
        Path again = fixture.userDirectory("images-again");
        HeldRank held = JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, job.root(), again, "c2")));
        held.requireHeld();
        HeldRank restored = JobFixture.finish(blcr.restart(fixture.restart(0, again, "r")));
        held.requireHeld();
        held.end(JobFixture.LIMIT);
        restored.release();
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldGoOnToTheRightResultWhenAnOrphanIsMovedTwice() throws Exception {
        JobFixture.Job job = fixture.startOrphan("a", JobFixture.USER, SMALL);
        HeldRank original = JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")));
        HeldRank restored = JobFixture.finish(blcr.restart(fixture.restart(0, images, "r")));
        restored.requireHeld();
        original.requireHeld();
        ProcessIdentity copy = restored.processes().get(0);
        assertEquals(1, restored.processes().size());
        assertEquals(1, fixture.table.parent(copy), "it is init's child, as its original");
        assertTrue(
                restored.helperProcesses().stream().noneMatch(fixture.table::isAlive)
                        || Polling.until(JobFixture.LIMIT, () -> restored.helperProcesses().stream()
                                .noneMatch(fixture.table::isAlive)),
                "cr_restart has ended");
        original.end(JobFixture.LIMIT);
        restored.release();

        Path again = fixture.userDirectory("images-again");
        HeldRank held = JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, copy, again, "c2")));
        HeldRank third = JobFixture.finish(blcr.restart(fixture.restart(0, again, "r2")));
        held.end(JobFixture.LIMIT);
        third.release();
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldEndTheCopyOfAnOrphanWhenItIsRestoredAndThenRefused() throws Exception {
        JobFixture.Job job = fixture.startOrphan("a", JobFixture.USER, SMALL);
        HeldRank original = JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")));
        // No process stops it, so it is not held. By then cr_restart has ended, and only its session identifies the
        // copy.
        Path wrapper = fixture.bin.resolve("cr_restart_running");
        Files.writeString(wrapper, "#!/bin/bash\nexec " + fixture.bin + "/cr_restart \"${@/--stop/--run}\"\n");
        Files.setPosixFilePermissions(wrapper, PosixFilePermissions.fromString("rwxr-xr-x"));
        RankCommand.Timing timing = new RankCommand.Timing(
                Duration.ofSeconds(5), Duration.ofSeconds(2), Duration.ofSeconds(1), Duration.ofSeconds(5));
        Checkpointer running = new CheckpointerSettings.Blcr(
                        fixture.bin.resolve("cr_checkpoint").toString(),
                        wrapper.toString(),
                        false,
                        NamespacePolicy.AUTO)
                .create("blcr", fixture.programs, timing);
        RankCommand command = running.restart(fixture.restart(0, images, "r"));
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("is not held"), message);
        List<String> left = fixture.leftovers();
        assertEquals(1, left.size(), "the original alone: " + left);
        original.end(JobFixture.LIMIT);
        fixture.requireNothingLeft();
    }

    @Test
    void shouldSayWhatToDoByTheExitStatusWhenAToolFails() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        Files.createFile(images.resolve("context.0"));
        assertRemedy(
                () -> blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")),
                "exit status 17",
                "File exists",
                "exists already");
        JobFixture.Job plain =
                fixture.start("plain-job", "p", "--size", "8m", "--passes", "80", "--seed", "7", "--pace", "50");
        assertRemedy(
                () -> blcr.checkpoint(fixture.checkpoint(1, plain.root(), images, "c")), "exit status 52", "cr_run");
        Files.createFile(images.resolve("context.2"));
        Files.setAttribute(images.resolve("context.2"), "unix:uid", JobFixture.USER.uid());
        assertRemedy(() -> blcr.restart(fixture.restart(2, images, "r")), "exit status 5", "ended too early");
        assertRemedy(() -> blcr.restart(fixture.restart(3, images, "r")), "exit status 255", "could not be opened");
        Path closed = Files.createFile(images.resolve("context.4"));
        Files.setPosixFilePermissions(closed, PosixFilePermissions.fromString("rw-------"));
        assertRemedy(() -> blcr.restart(fixture.restart(4, images, "r")), "exit status 13", "the user may read it");
        assertTrue(fixture.table.isRunning(job.root()));
    }

    private interface Started {
        RankCommand command() throws CheckpointException;
    }

    private static void assertRemedy(Started started, String... words) {
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(started.command()))
                .getMessage();
        for (String word : words) {
            assertTrue(message.contains(word), message);
        }
        assertTrue(message.contains("Remedy: "), message);
    }

    @Test
    void shouldKnowTheNameBehindTheTemporaryOne() {
        assertEquals(Optional.of("context.0"), blcr.finalNameOf(".context.0.tmp"));
        assertEquals(Optional.empty(), blcr.finalNameOf("context.0"));
        assertEquals(Optional.empty(), blcr.finalNameOf(".tmp"));
    }

    @Tag("soak")
    @Test
    void shouldGoOnToTheRightResultWhenTheImageIsWrittenByManyAtOnce() throws Exception {
        JobFixture.Job job = fixture.start(
                "selfckpt-job",
                "a",
                "--size",
                "70m",
                "--passes",
                "30",
                "--seed",
                "7",
                "--pace",
                "50",
                "--writers",
                "4");
        HeldRank original = JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")));
        HeldRank restored = JobFixture.finish(blcr.restart(fixture.restart(0, images, "r")));
        original.end(JobFixture.LIMIT);
        restored.release();
        fixture.requireResult(job);
    }

    @Test
    void shouldGoOnToTheRightResultWhenTheOriginalIsReleased() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        HeldRank original = JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")));
        HeldRank restored = JobFixture.finish(blcr.restart(fixture.restart(0, images, "r")));
        restored.end(JobFixture.LIMIT);
        original.requireHeld();
        original.release();
        assertThrows(CheckpointException.class, original::requireHeld);
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldRestoreInANamespaceOfItsOwnWhenPolicyIsAlways() throws Exception {
        Checkpointer always = blcr(NamespacePolicy.ALWAYS);
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        HeldRank original = JobFixture.finish(always.checkpoint(fixture.checkpoint(0, job.root(), images, "c")));
        HeldRank restored = JobFixture.finish(always.restart(fixture.restart(0, images, "r")));
        assertEquals(1, restored.processes().size());
        assertFalse(restored.processes().get(0).pidNamespace() == job.root().pidNamespace());
        original.end(JobFixture.LIMIT);
        restored.release();

        // The rank is moved a second time, from that namespace into another one.
        ProcessIdentity root = restored.processes().get(0);
        Path again = fixture.userDirectory("images-again");
        HeldRank held = JobFixture.finish(always.checkpoint(fixture.checkpoint(0, root, again, "c2")));
        HeldRank third = JobFixture.finish(always.restart(fixture.restart(0, again, "r2")));
        held.requireHeld();
        assertFalse(third.processes().get(0).pidNamespace() == root.pidNamespace());
        held.end(JobFixture.LIMIT);
        third.release();
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldLetTheOriginalRunWhenTheImageFileIsThereAlready() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        Files.createFile(images.resolve("context.0"));
        RankCommand command = blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c"));
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("rank 0") && message.contains("File exists"), message);
        assertTrue(fixture.table.isRunning(job.root()));
        fixture.requireResult(job);
    }

    @Tag("soak")
    @Test
    void shouldLetTheOriginalRunWhenCancelled() throws Exception {
        JobFixture.Job job =
                fixture.start("selfckpt-job", "a", "--size", "70m", "--passes", "6", "--seed", "7", "--pace", "1000");
        RankCommand command = blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c"));
        command.cancel();
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("cancelled"), message);
        assertTrue(fixture.table.isRunning(job.root()));
        fixture.requireResult(job);
    }

    @Test
    void shouldNameTheRemedyWhenTheRankIsTraced() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        // PTRACE_SEIZE of ptrace(2).
        Process tracer = new ProcessBuilder(
                        "perl",
                        "-e",
                        "$| = 1; syscall($ARGV[0] + 0, 0x4206, $ARGV[1] + 0, 0, 0) == 0 or die $!; print \"traced\\n\";"
                                + " sleep 600",
                        System.getProperty("os.arch").equals("amd64") ? "101" : "117",
                        Integer.toString(job.root().pid()))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try {
            assertEquals("traced", tracer.inputReader().readLine());
            assertRemedy(
                    () -> blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")),
                    "exit status 56",
                    "detach it");
            assertTrue(fixture.table.isAlive(job.root()), "the original lives");
        } finally {
            tracer.destroyForcibly().waitFor();
        }
    }

    @Test
    void shouldLeaveNothingWhenTheImageIsCutOff() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        HeldRank original = JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")));
        try (FileChannel image = FileChannel.open(images.resolve("context.0"), StandardOpenOption.WRITE)) {
            image.truncate(30 << 20);
        }
        RankCommand command = blcr.restart(fixture.restart(0, images, "r"));
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("rank 0") && message.contains("Input/output error"), message);
        assertTrue(message.contains("Remedy: the image ended too early"), message);
        assertFalse(message.matches("(?s).*\\bfailed [0-9a-f]{8}-.*"), () -> "the adapter's own word: " + message);
        original.requireHeld();
        original.end(JobFixture.LIMIT);
        fixture.requireNothingLeft();
    }

    @Test
    void shouldLeaveNothingWhenARestartThatWaitsForDataIsCancelled() throws Exception {
        // A FIFO without a writer replaces a stream that does not arrive.
        Path fifo = images.resolve("context.0");
        assertEquals(
                0,
                CommandStarter.call(List.of("mkfifo", "-m", "666", fifo.toString()), JobFixture.LIMIT)
                        .exitCode());
        RankCommand command = blcr.restart(fixture.restart(0, images, "r"));
        assertEquals(null, command.await(Duration.ofMillis(300)));
        command.cancel();
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("cancelled"), message);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldFailWhenTheDeadlinePasses() throws Exception {
        Path fifo = images.resolve("context.0");
        assertEquals(
                0,
                CommandStarter.call(List.of("mkfifo", "-m", "666", fifo.toString()), JobFixture.LIMIT)
                        .exitCode());
        RankCommand command =
                blcr.restart(new RestartTask(0, JobFixture.USER, images, fixture.work("r"), Duration.ofMillis(300)));
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("limit"), message);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldGiveAnotherResultWhenOneByteOfTheImageIsFlipped() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        HeldRank original = JobFixture.finish(blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")));
        try (FileChannel image =
                FileChannel.open(images.resolve("context.0"), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            ByteBuffer one = ByteBuffer.allocate(1);
            image.read(one, 50 << 20);
            one.put(0, (byte) (one.get(0) ^ 1)).flip();
            image.write(one, 50 << 20);
        }
        HeldRank restored = JobFixture.finish(blcr.restart(fixture.restart(0, images, "r")));
        original.end(JobFixture.LIMIT);
        restored.release();
        assertTrue(Polling.until(JobFixture.LIMIT, () -> Files.exists(job.out()) && Files.size(job.out()) > 0));
        assertFalse(job.expected().equals(Files.readString(job.out()).trim()));
    }

    @Test
    void shouldNameTheProcessWhenItBelongsToAnotherUser() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", new JobUser(0, 0), "a", SMALL);
        String message = assertThrows(
                        CheckpointException.class,
                        () -> blcr.checkpoint(fixture.checkpoint(0, job.root(), images, "c")))
                .getMessage();
        assertTrue(message.contains("PID " + job.root().pid()) && message.contains("user 0"), message);
        assertTrue(fixture.table.isRunning(job.root()));
    }

    @Test
    void shouldNameTheProcessWhenItIsGoneOrAnother() throws Exception {
        ProcessIdentity self = fixture.table.of((int) ProcessHandle.current().pid());
        ProcessIdentity former =
                new ProcessIdentity(self.bootId(), self.pidNamespace(), self.pid(), self.startTimeTicks() - 1);
        String message = assertThrows(
                        CheckpointException.class, () -> blcr.checkpoint(fixture.checkpoint(0, former, images, "c")))
                .getMessage();
        assertTrue(message.contains("PID " + self.pid()) && message.contains("gone"), message);
    }

    @Test
    void shouldSayWhatIsMissingWhenProbed() {
        assertTrue(blcr.probe().available(), blcr.probe().toString());
        Availability none = new CheckpointerSettings.Blcr("cr_nothing", "cr_restart", false, NamespacePolicy.AUTO)
                .create("blcr", fixture.programs)
                .probe();
        assertFalse(none.available());
        assertTrue(
                none.detail().contains("cr_nothing is not installed")
                        && !none.remedy().isEmpty(),
                none.toString());
        Availability module = new CheckpointerSettings.Blcr(
                        fixture.bin.resolve("cr_checkpoint").toString(),
                        fixture.bin.resolve("cr_restart").toString(),
                        true,
                        NamespacePolicy.AUTO)
                .create("blcr", fixture.programs)
                .probe();
        assertFalse(module.available());
        assertTrue(module.detail().contains("kernel module"), module.toString());
    }

    @Test
    void shouldFailByNameWhenTheProgramIsNotInstalled() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        Checkpointer missing = new CheckpointerSettings.Blcr("cr_nothing", "cr_nothing", false, NamespacePolicy.AUTO)
                .create("blcr", fixture.programs);
        RankCommand command = missing.checkpoint(fixture.checkpoint(0, job.root(), images, "c"));
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("cr_nothing"), message);
        assertTrue(fixture.table.isRunning(job.root()));
    }
}
