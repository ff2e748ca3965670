package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.linux.Command;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests the commands of many ranks, started together and ended together. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RankCommandsIT {
    private static final RankCommand.Timing QUICK = new RankCommand.Timing(
            Duration.ofSeconds(1), Duration.ofSeconds(1), Duration.ofSeconds(1), Duration.ofSeconds(10));
    private static final Duration LOOK = Duration.ofSeconds(20);
    private static final Duration ENOUGH = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    private final RankCommands commands = new RankCommands("restart");
    private JobFixture fixture;
    private Path images;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        images = fixture.userDirectory("images");
    }

    @AfterEach
    void tearDown() throws Exception {
        commands.endAll(LOOK);
        if (fixture != null) {
            fixture.close();
        }
    }

    private RestartTask task(int rank) {
        return new RestartTask(rank, JobFixture.USER, images, fixture.work("r" + rank), JobFixture.LIMIT);
    }

    private Checkpointer restarts(String script) {
        return CheckpointerSettings.CommandTool.streamed(
                        List.of("/bin/false"), List.of("/bin/sh", "-c", script, "sh", images.toString(), "{rank}"))
                .create("command", fixture.programs, QUICK);
    }

    /** Fewer threads than ranks start the commands one after the other. Each command waits for the last one. */
    @Test
    void shouldStartEveryCommandThoughEachWaitsForAllOthers() throws Exception {
        int ranks = 24;
        Checkpointer barrier = restarts("touch $1/at-$2;"
                + " while [ $(ls $1 | grep -c at-) -lt " + ranks + " ]; do sleep 0.5; done;"
                + " sh -c 'kill -STOP $$; sleep 60' & wait");
        commands.start(IntStream.range(0, ranks).boxed().toList(), rank -> barrier.restart(task(rank)));
        for (int rank = 0; rank < ranks; rank++) {
            HeldRank held = commands.next(ENOUGH).orElseThrow();
            held.end(JobFixture.LIMIT);
        }
        assertTrue(commands.isEmpty());
    }

    @Test
    void shouldEndAllWithinOneDeadline() throws Exception {
        Checkpointer stubborn = restarts("trap '' TERM; sleep 300");
        commands.start(List.of(0, 1, 2, 3, 4, 5), rank -> stubborn.restart(task(rank)));
        assertTrue(Polling.until(LOOK, () -> commands.started().size() == 6));
        long startNs = System.nanoTime();
        assertEquals(List.of(), commands.endAll(LOOK));
        assertTrue(System.nanoTime() - startNs < 2 * LOOK.toNanos());
        assertTrue(commands.isEmpty());
        fixture.requireNothingLeft();
    }

    @Test
    void shouldSayWhichCouldNotBeStartedAndEndTheOthers() throws Exception {
        Checkpointer sleeping = restarts("sleep 300");
        commands.start(IntStream.range(0, 12).boxed().toList(), rank -> {
            if (rank == 5) {
                throw new CheckpointException("rank 5 has no room");
            }
            return sleeping.restart(task(rank));
        });
        CheckpointException e = assertThrows(CheckpointException.class, () -> commands.next(LOOK));
        assertEquals("rank 5 has no room", e.getMessage());
        assertFalse(commands.isEmpty());
        commands.endAll(LOOK);
        assertTrue(commands.isEmpty());
        fixture.requireNothingLeft();
    }

    /** Under systemd each start, and each short command, is a call of systemd-run. */
    @Test
    void shouldStartOneProgramForARestartInANamespaceOfItsOwn() throws Exception {
        AtomicInteger starts = new AtomicInteger();
        CommandStarter direct = new CommandStarter.Direct();
        CommandStarter counting = new CommandStarter() {
            @Override
            public StartedCommand start(String name, List<String> command, Path workDirectory, Path output)
                    throws CheckpointException {
                starts.incrementAndGet();
                return direct.start(name, command, workDirectory, output);
            }

            @Override
            public Command.CommandResult run(List<String> command, Duration limit, OutputLimit output)
                    throws CheckpointException {
                starts.incrementAndGet();
                return direct.run(command, limit, output);
            }

            @Override
            public boolean givesCapability(int number) {
                return direct.givesCapability(number);
            }
        };
        ToolKit kit =
                new ToolKit(fixture.programs, fixture.table, fixture.signals, QUICK, counting, new ToolVersions());
        RankNamespace.Planned planned = RankNamespace.Planned.of(kit, task(0), "restart-0");
        List<String> words = kit.launchInNew(Optional.of(planned), images, kit.launch(Optional.empty()), List.of());
        words.addAll(List.of("/bin/sleep", "60"));
        ToolProcess tool = ToolProcess.start("restart-0", words, task(0).workDirectory(), Optional.empty(), kit);
        RankNamespace namespace = planned.made(kit, tool);
        assertEquals(1, starts.get());
        assertTrue(Polling.until(
                LOOK, () -> !namespace.members(fixture.table.snapshot()).isEmpty()));
        assertTrue(namespace.init().pidNamespace() != fixture.table.ownPidNamespace());
        tool.kill(JobFixture.LIMIT, fixture.signals);
        namespace.end(fixture.table, fixture.signals, JobFixture.LIMIT);
    }
}
