package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.linux.ProcessIdentity;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests the init of a rank's namespace. */
@Timeout(120)
class RankInitIT {
    private static final Duration SOON = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    private JobFixture fixture;
    private final List<Path> mounts = new ArrayList<>();

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
    }

    @AfterEach
    void tearDown() throws Exception {
        if (fixture != null) {
            for (Path mount : mounts) {
                run("umount", "--lazy", mount.toString());
            }
            fixture.close();
        }
    }

    private static String run(String... command) throws CheckpointException {
        Command.CommandResult result = CommandStarter.call(List.of(command), SOON);
        assertEquals(0, result.exitCode(), result.describe());
        return result.output();
    }

    private ProcessIdentity start(String... options) throws CheckpointException {
        List<String> command =
                new ArrayList<>(List.of(fixture.programs.rankInit().toString()));
        command.addAll(List.of(options));
        return fixture.table.of(Integer.parseInt(run(command.toArray(String[]::new))));
    }

    private String inside(ProcessIdentity init, String script) throws CheckpointException {
        List<String> launch = List.of(fixture.programs.launch().toString(), "--");
        List<String> command = new RankNamespace(init).enter(launch, fixture.base, List.of());
        command.addAll(List.of("/bin/sh", "-c", script));
        return run(command.toArray(String[]::new));
    }

    @Test
    void shouldEndWhenItsLastProcessEnds() throws Exception {
        ProcessIdentity init = start();
        inside(init, "setsid sleep 1 > /dev/null 2>&1 < /dev/null &");
        assertEquals(
                1, new RankNamespace(init).members(fixture.table.snapshot()).size());
        assertTrue(fixture.table.isAlive(init));
        assertTrue(Polling.until(SOON, () -> !fixture.table.isAlive(init)));
    }

    /** A tool of a service that dies leaves such children. This init then traces the child, which is stopped. */
    @Test
    void shouldLetAProcessGoOnThatAsksItsParentToTraceItWhenTheParentHasEnded() throws Exception {
        ProcessIdentity init = start();
        String child = "sleep(0.01) while getppid() != 1; syscall(`uname -m` =~ /x86_64/ ? 101 : 117, 0, 0, 0, 0) == 0"
                + " or die; open(my $said, q(>), shift) or die; kill q(STOP), $$; print $said qq(continued\\n)";
        Path output = fixture.base.resolve("said");
        inside(
                init,
                "perl -e 'use Time::HiRes q(sleep); exit 0 if fork; " + child + "' " + output
                        + " > /dev/null 2>&1 < /dev/null");
        assertTrue(Polling.until(SOON, () -> !fixture.table.isAlive(init)), "the namespace is not empty");
        assertEquals("continued\n", Files.readString(output));
    }

    @Test
    void shouldEndWhenNothingCameWithinTheGracePeriod() throws Exception {
        ProcessIdentity init = start("--grace", "1");
        assertTrue(fixture.table.isAlive(init));
        assertTrue(Polling.until(SOON, () -> !fixture.table.isAlive(init)));
    }

    @Test
    void shouldLeadASessionOfItsOwnAndBePidOneInside() throws Exception {
        ProcessIdentity init = start("--grace", "5");
        assertTrue(fixture.table.leadsSession(init));
        assertEquals(1, fixture.table.pidInside(init));
        assertNotEquals(fixture.table.ownPidNamespace(), init.pidNamespace());
        // An init that has seen a process ends with it.
        List<String> seen = inside(init, "ls -d /proc/1; echo $$").lines().toList();
        assertEquals("/proc/1", seen.get(0));
        assertTrue(Integer.parseInt(seen.get(1)) > 1000, "tools take PIDs that a job may need");
    }

    @Test
    void shouldNotHaveADetachedMountButSeeLaterOnes() throws Exception {
        Path early = fixture.userDirectory("early");
        Path late = fixture.userDirectory("late");
        run("mount", "-t", "tmpfs", "ppmr-test", early.toString());
        mounts.add(early);
        ProcessIdentity init = start("--detach", early.toString());
        // An init ends with the last process that was its child, and a process that a shell leaves behind is one.
        inside(init, "setsid sleep 100 > /dev/null 2>&1 < /dev/null &");
        assertEquals(
                "",
                inside(
                        init,
                        "mountpoint -q " + early + " || true; mountpoint " + early + " 2>&1 | grep 'is a' || true"));
        // Later mounts are visible if the node's own mounts propagate.
        boolean shared = run("findmnt", "-no", "PROPAGATION", "-T", fixture.base.toString())
                .contains("shared");
        run("mount", "-t", "tmpfs", "ppmr-test", late.toString());
        mounts.add(late);
        String seen = inside(init, "mountpoint -q " + late + " && echo yes || echo no");
        assertEquals(shared ? "yes" : "no", seen);
    }

    @Test
    void shouldFindAMemberWhenAnotherHasEndedAfterTheScan() throws Exception {
        ProcessIdentity init = start();
        inside(init, "for i in 1 2; do setsid sleep 100 > /dev/null 2>&1 < /dev/null & done");
        RankNamespace namespace = new RankNamespace(init);
        ProcessSnapshot before = fixture.table.snapshot();
        ProcessIdentity ended = namespace.members(before).get(0);
        ProcessIdentity living = namespace.members(before).get(1);
        int endedInside = fixture.table.pidInside(ended);
        int livingInside = fixture.table.pidInside(living);
        fixture.signals.send(SignalSender.Signal.KILL, ended);
        assertTrue(Polling.until(SOON, () -> !fixture.table.isAlive(ended)));
        assertEquals(Optional.of(living), namespace.member(fixture.table, livingInside, before));
        assertEquals(Optional.empty(), namespace.member(fixture.table, endedInside, before));
        namespace.end(fixture.table, fixture.signals, SOON);
    }

    @Test
    void shouldEndEverythingInsideWhenItIsEnded() throws Exception {
        ProcessIdentity init = start();
        inside(init, "for i in 1 2 3; do setsid sleep 100 > /dev/null 2>&1 < /dev/null & done");
        RankNamespace namespace = new RankNamespace(init);
        List<ProcessIdentity> members = namespace.members(fixture.table.snapshot());
        assertEquals(3, members.size());
        namespace.end(fixture.table, fixture.signals, SOON);
        assertFalse(members.stream().anyMatch(fixture.table::isAlive));
    }
}
