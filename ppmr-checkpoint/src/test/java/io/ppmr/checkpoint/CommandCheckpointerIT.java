package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.linux.Command;
import io.ppmr.protocol.data.ReadingMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests the command adapter with real commands and jobs. */
@Timeout(120)
class CommandCheckpointerIT {
    private static final String[] SMALL = {"--size", "8m", "--passes", "120", "--seed", "5", "--pace", "50"};
    private static final RankCommand.Timing QUICK = new RankCommand.Timing(
            Duration.ofSeconds(1), Duration.ofSeconds(1), Duration.ofSeconds(1), Duration.ofSeconds(5));

    private JobFixture fixture;
    private Path images;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        images = fixture.userDirectory("images");
    }

    @AfterEach
    void tearDown() throws Exception {
        if (fixture != null) {
            fixture.close();
        }
    }

    private String program(String name) {
        return fixture.bin.resolve(name).toString();
    }

    private Checkpointer command(List<String> checkpoint, List<String> restart) {
        return CheckpointerSettings.CommandTool.streamed(checkpoint, restart)
                .create("command", fixture.programs, QUICK);
    }

    private List<String> goodCheckpoint() {
        return List.of(program("cr_checkpoint"), "--noclobber", "--stop", "-f", "{file}", "{pid}");
    }

    private void requireMoved(Checkpointer checkpointer) throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        HeldRank original = JobFixture.finish(checkpointer.checkpoint(fixture.checkpoint(5, job.root(), images, "c")));
        HeldRank restored = JobFixture.finish(checkpointer.restart(fixture.restart(5, images, "r")));
        restored.requireHeld();
        original.requireHeld();
        assertEquals(1, restored.processes().size());
        original.end(JobFixture.LIMIT);
        restored.release();
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    @Tag("soak")
    @Test
    void shouldFindTheRestoredProcessesBelowACommandThatStays() throws Exception {
        requireMoved(command(
                goodCheckpoint(),
                List.of(program("cr_restart"), "--no-restore-pid", "--stop", "-f", "{dir}/image.{rank}")));
    }

    @Tag("soak")
    @Test
    void shouldFindTheRestoredProcessesByTheFileWithTheirPid() throws Exception {
        Path pids = fixture.userDirectory("pids");
        // The command runs as root, and starts a process of the job's user, who may not write to the folder of root's
        // PID file.
        CheckpointerSettings.CommandTool settings = new CheckpointerSettings.CommandTool(
                goodCheckpoint(),
                List.of(
                        "/bin/sh",
                        "-c",
                        "\"$1\" --uid $2 --gid $2 -- \"$3\" --no-restore-pid --stop "
                                + "--run-on-success=\"echo ok > $6/ok\" -F 0 < \"$4\" &"
                                + " while [ ! -e $6/ok ]; do sleep 0.05; done; pgrep -P $! > \"$5\"",
                        "restart",
                        program("ppmr-launch"),
                        Integer.toString(JobFixture.USER.uid()),
                        program("cr_restart"),
                        "{file}",
                        "{pidfile}",
                        pids.toString()),
                ReadingMode.STREAMED,
                "image.{rank}",
                List.of("image.{rank}"),
                List.of(),
                Map.of(),
                RunAs.ROOT,
                false,
                false,
                NamespacePolicy.AUTO);
        requireMoved(settings.create("command", fixture.programs));
    }

    @Tag("soak")
    @Test
    void shouldRestoreInANamespaceOfItsOwnWhenPolicyIsAlways() throws Exception {
        CheckpointerSettings.CommandTool settings = new CheckpointerSettings.CommandTool(
                goodCheckpoint(),
                List.of(program("cr_restart"), "--no-restore-pid", "--stop", "-f", "{file}"),
                ReadingMode.STREAMED,
                "image.{rank}",
                List.of("image.{rank}"),
                List.of(),
                Map.of(),
                RunAs.JOB_USER,
                false,
                false,
                NamespacePolicy.ALWAYS);
        requireMoved(settings.create("command", fixture.programs));
    }

    @Test
    void shouldRefuseACheckpointThatDoesNotStopItsProcesses() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        Checkpointer careless = command(
                List.of(program("cr_checkpoint"), "--noclobber", "--run", "-f", "{file}", "{pid}"),
                List.of("/bin/true"));
        RankCommand command = careless.checkpoint(fixture.checkpoint(5, job.root(), images, "c"));
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("rank 5") && message.contains("not held"), message);
        assertTrue(fixture.table.isRunning(job.root()));
        fixture.requireResult(job);
    }

    @Test
    void shouldEndWhatARestartHasMadeWhenItIsNotStopped() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        Path pids = fixture.userDirectory("pids");
        Checkpointer careless = command(
                goodCheckpoint(),
                List.of(
                        "/bin/sh",
                        "-c",
                        "\"$1\" --no-restore-pid --run --run-on-success=\"echo ok > $3/ok\" -f \"$2\" & wait",
                        "restart",
                        program("cr_restart"),
                        "{file}",
                        pids.toString()));
        HeldRank original = JobFixture.finish(careless.checkpoint(fixture.checkpoint(5, job.root(), images, "c")));
        RankCommand command = careless.restart(
                new RestartTask(5, JobFixture.USER, images, fixture.work("r"), Duration.ofMillis(700)));
        assertThrows(CheckpointException.class, () -> JobFixture.finish(command));
        original.requireHeld();
        original.end(JobFixture.LIMIT);
        fixture.requireNothingLeft();
    }

    @Test
    void shouldEndWhatHasLeftTheRestartsSessionWhenItIsCancelled() throws Exception {
        Checkpointer leaving = command(
                goodCheckpoint(),
                List.of(
                        "/bin/sh",
                        "-c",
                        "setsid -f setsid -f /bin/sh -c 'kill -STOP $$' \"$1\"; sleep 1000",
                        "restart",
                        fixture.base.toString()));
        RankCommand command =
                leaving.restart(new RestartTask(5, JobFixture.USER, images, fixture.work("r"), Duration.ofSeconds(60)));
        assertEquals(null, command.await(Duration.ofMillis(300)));
        command.cancel();
        assertThrows(CheckpointException.class, () -> JobFixture.finish(command));
        fixture.requireNothingLeft();
    }

    @Test
    void shouldRefuseARestartThatNamesAProcessOlderThanItself() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        CheckpointerSettings.CommandTool settings = new CheckpointerSettings.CommandTool(
                goodCheckpoint(),
                List.of("/bin/sh", "-c", "echo " + job.root().pid() + " > \"$1\"", "restart", "{pidfile}"),
                ReadingMode.STREAMED,
                "image.{rank}",
                List.of(),
                List.of(),
                Map.of(),
                RunAs.ROOT,
                false,
                false,
                NamespacePolicy.AUTO);
        RankCommand command =
                settings.create("command", fixture.programs, QUICK).restart(fixture.restart(5, images, "r"));
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("older"), message);
        assertTrue(fixture.table.isRunning(job.root()));
    }

    private Checkpointer namingPids(boolean asJobUser, String script) {
        return new CheckpointerSettings.CommandTool(
                        List.of("/bin/true"),
                        List.of("/bin/sh", "-c", script, fixture.base.toString(), "{pidfile}"),
                        ReadingMode.STREAMED,
                        "image.{rank}",
                        List.of(),
                        List.of(),
                        Map.of(),
                        asJobUser ? RunAs.JOB_USER : RunAs.ROOT,
                        false,
                        false,
                        NamespacePolicy.AUTO)
                .create("command", fixture.programs, QUICK);
    }

    private String failure(Checkpointer checkpointer, Path work) throws Exception {
        RankCommand command = checkpointer.restart(new RestartTask(5, JobFixture.USER, images, work, JobFixture.LIMIT));
        return assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
    }

    @Test
    void shouldFailByNameWhenTheUsersPidFileIsAFifoAHoleOrALink() throws Exception {
        Path secret = Files.writeString(fixture.base.resolve("secret"), "4711\n");
        Map<String, String> attacks = Map.of(
                "mkfifo \"$1\"",
                "no regular file",
                "truncate -s 1G \"$1\"",
                "longer than",
                "ln -s " + secret + " \"$1\"",
                "symbolic link",
                "echo root:secret > \"$1\"",
                "must contain only a PID");
        for (Map.Entry<String, String> attack : attacks.entrySet()) {
            String output = failure(namingPids(true, attack.getKey() + "; sleep 1000"), fixture.work("r"));
            assertTrue(output.contains("restart-5.pid") && output.contains(attack.getValue()), output);
            assertFalse(output.contains("secret"), output);
            WorkDirectories.remove(fixture.work("r"));
        }
        fixture.requireNothingLeft();
    }

    @Test
    void shouldWriteNowhereElseWhenAUserPlantsLinksForTheOutput() throws Exception {
        Path canary = Files.writeString(fixture.base.resolve("canary"), "root's");
        Path work = fixture.work("planted");
        List<String> arguments = new ArrayList<>(List.of("plant", canary.toString()));
        for (String folder : List.of("rank-5", "rank-5/own", "rank-5/scratch")) {
            for (String name : List.of("restart-5.out", "restart-5.pid", "restart.log")) {
                arguments.add(work.resolve(folder).resolve(name).toString());
            }
        }
        fixture.raceAsUser(arguments.toArray(String[]::new));
        for (int round = 0; round < 10; round++) {
            for (boolean asJobUser : List.of(true, false)) {
                // The link may come first. Only root's open of the output matters.
                failure(
                        namingPids(asJobUser, "echo overwritten; echo 1 > /dev/null; exit 9"),
                        WorkDirectories.create(work, 5));
                assertEquals("root's", Files.readString(canary));
                WorkDirectories.remove(work);
            }
        }
        assertEquals("root's", Files.readString(canary));
    }

    @Test
    void shouldQuoteTheCommandWhenItFails() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        Checkpointer failing = command(
                List.of("/bin/sh", "-c", "echo no disk for {rank} in $0; exit 9", "{dir}"), List.of("/bin/true"));
        RankCommand command = failing.checkpoint(fixture.checkpoint(5, job.root(), images, "c"));
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("exit status 9") && message.contains("no disk for 5 in " + images), message);
        assertTrue(fixture.table.isRunning(job.root()));
    }

    @Tag("soak")
    @Test
    void shouldLetTheOriginalRunWhenTheCommandStopsItAndFails() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        Checkpointer failing =
                command(List.of("/bin/sh", "-c", "kill -STOP {pid}; sleep 0.1; exit 1"), List.of("/bin/true"));
        RankCommand command = failing.checkpoint(fixture.checkpoint(5, job.root(), images, "c"));
        assertThrows(CheckpointException.class, () -> JobFixture.finish(command));
        assertTrue(fixture.table.isRunning(job.root()));
        fixture.requireResult(job);
    }

    @Test
    void shouldLetTheOriginalRunWhenTheCommandHasStoppedItAndFailedBeforeItIsWatched() throws Exception {
        JobFixture.Job job = fixture.start("selfckpt-job", "a", SMALL);
        ProcessTable table = new ProcessTable();
        ToolKit slow = new ToolKit(
                fixture.programs, table, new SignalSender(table), QUICK, new SlowStarter(), new ToolVersions());
        Checkpointer failing = new CommandCheckpointer(
                "command",
                CheckpointerSettings.CommandTool.streamed(
                        List.of("/bin/sh", "-c", "kill -STOP {pid}; sleep 0.1; exit 1"), List.of("/bin/true")),
                slow);
        RankCommand command = failing.checkpoint(fixture.checkpoint(5, job.root(), images, "c"));
        assertThrows(CheckpointException.class, () -> JobFixture.finish(command));
        assertTrue(fixture.table.isRunning(job.root()));
        fixture.requireResult(job);
    }

    /** Returns when the command has ended, as a starter on a busy node may. */
    private static final class SlowStarter implements CommandStarter {
        private final CommandStarter starter = new CommandStarter.Direct();

        @Override
        public StartedCommand start(String name, List<String> command, Path workDirectory, Path output)
                throws CheckpointException {
            StartedCommand started = starter.start(name, command, workDirectory, output);
            started.client().onExit().join();
            return started;
        }

        @Override
        public Command.CommandResult run(List<String> command, Duration limit, OutputLimit output)
                throws CheckpointException {
            return starter.run(command, limit, output);
        }

        @Override
        public boolean givesCapability(int number) {
            return starter.givesCapability(number);
        }
    }

    @Tag("soak")
    @Test
    void shouldEndACommandThatIgnoresItsCancellation() throws Exception {
        JobFixture.Job job =
                fixture.start("selfckpt-job", "a", "--size", "8m", "--passes", "40", "--seed", "5", "--pace", "200");
        Checkpointer stubborn = command(
                List.of("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done", fixture.base.toString()),
                List.of("/bin/true"));
        RankCommand command = stubborn.checkpoint(fixture.checkpoint(5, job.root(), images, "c"));
        assertEquals(null, command.await(Duration.ofMillis(300)));
        command.cancel();
        String message = assertThrows(CheckpointException.class, () -> JobFixture.finish(command))
                .getMessage();
        assertTrue(message.contains("cancelled"), message);
        assertTrue(fixture.table.isRunning(job.root()));
        fixture.requireResult(job);
        fixture.requireNothingLeft();
    }

    @Test
    void shouldSayWhatIsMissingWhenProbed() {
        assertTrue(command(goodCheckpoint(), List.of("true")).probe().available());
        Availability none =
                command(List.of("dump-nothing", "{pid}"), List.of("true")).probe();
        assertFalse(none.available());
        assertTrue(
                none.detail().contains("dump-nothing is not installed")
                        && !none.remedy().isEmpty(),
                none.toString());
    }
}
