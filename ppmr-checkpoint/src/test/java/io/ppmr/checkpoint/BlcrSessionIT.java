package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Tests that the replacements of BLCR's programs behave like the real ones, which were recorded on Linux 3.10. It
 * compares {@code blcr-session} command by command, and with its notes.
 */
@Timeout(120)
class BlcrSessionIT {
    private static final Path SESSION = Path.of("../ppmr-linux/src/test/resources/linux-3.10/blcr-session");
    private static final String RECORDED_FOLDER = "/var/ckpt";
    private static final String RECORDED_PID = "110";
    private static final int ENXIO = 6;
    private static final int EAGAIN = 11;
    private static final int EINVAL = 22;
    private static final JobUser ROOT = new JobUser(0, 0);

    private JobFixture fixture;
    private Path folder;
    private JobFixture.Job job;
    private final List<Process> started = new ArrayList<>();

    /** A command of the session, and its output. */
    private record Step(String command, List<String> printed) {}

    @BeforeEach
    void startTheJob() throws Exception {
        fixture = new JobFixture();
        folder = Files.createDirectory(fixture.base.resolve("ckpt"));
        // The session ran as root.
        job = fixture.start(
                "selfckpt-job", ROOT, "a", "--size", "1m", "--passes", "1000", "--seed", "5", "--pace", "50");
    }

    @AfterEach
    void endAll() throws Exception {
        started.forEach(Process::destroyForcibly);
        if (fixture != null) {
            fixture.close();
        }
    }

    private static List<Step> session() throws Exception {
        List<Step> steps = new ArrayList<>();
        for (String line : Files.readAllLines(SESSION, StandardCharsets.UTF_8)) {
            if (line.startsWith("+ ")) {
                steps.add(new Step(line.substring(2), new ArrayList<>()));
            } else {
                steps.get(steps.size() - 1).printed().add(line);
            }
        }
        return steps;
    }

    private String here(String text) {
        return text.replace(RECORDED_FOLDER, folder.toString())
                .replaceAll(
                        "\\b" + RECORDED_PID + "\\b",
                        Integer.toString(job.root().pid()))
                .replace(" 999999 ", " 2147483646 ");
    }

    private Process start(String command) throws Exception {
        Process process = new ProcessBuilder("bash", "-c", "PATH=" + fixture.bin + ":$PATH; " + command)
                .directory(folder.toFile())
                .redirectInput(ToolProcess.NULL)
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("output").toFile())
                .start();
        started.add(process);
        return process;
    }

    private int run(String command) throws Exception {
        Process process = start(command);
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "does not end: " + command);
        return process.exitValue();
    }

    private List<String> printed() throws IOException {
        return Files.readAllLines(folder.resolve("output"));
    }

    @Test
    void shouldSayAndReturnWhatTheRealOnesDidWhenTheRecordedSessionIsReplayed() throws Exception {
        List<Step> steps = session();
        int compared = 0;
        Process restarted = null;
        for (int i = 0; i < steps.size(); i++) {
            String command = here(steps.get(i).command());
            boolean inBackground = i > 0 && steps.get(i - 1).command().startsWith("r=");
            if (inBackground) {
                restarted = start("exec " + command);
                ProcessIdentity tool = fixture.table
                        .find((int) restarted.pid())
                        .orElseThrow(() -> new AssertionError("cr_restart has ended: " + lastPrinted()));
                awaitHeld();
                assertTrue(fixture.table.isAlive(tool), "cr_restart stays while its child lives");
                assertEquals(tool.pid(), fixture.table.parent(current()));
            } else if (command.startsWith("cr_")) {
                int exitCode = run("exec " + command);
                assertEquals(steps.get(i + 1).printed(), List.of("rc=" + exitCode), command);
                assertEquals(steps.get(i).printed().stream().map(this::here).toList(), printed(), command);
                compared++;
            } else if (command.startsWith("ls ")) {
                assertEquals("r--------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file("c"))));
            } else if (command.startsWith("ps ")) {
                awaitHeld();
            } else if (command.startsWith("kill ")) {
                assertEquals(0, run(command));
                boolean killed = command.startsWith("kill -9");
                assertTrue(Polling.until(
                        JobFixture.LIMIT,
                        () -> killed
                                ? !Files.exists(Path.of("/proc/" + job.root().pid()))
                                : fixture.table.isRunning(current())));
            } else if (command.startsWith("wait ")) {
                assertTrue(restarted.waitFor(60, TimeUnit.SECONDS));
                assertEquals(
                        List.of("cr_restart rc=" + restarted.exitValue()),
                        steps.get(i + 1).printed());
            } else if (command.startsWith("head ")) {
                assertEquals(0, run(command + " > short"));
            }
        }
        assertEquals(5, compared);
    }

    private Path file(String name) {
        return folder.resolve(name);
    }

    /** Returns the process that now has the job's PID, and waits for it if needed. */
    private ProcessIdentity current() throws CheckpointException {
        return fixture.table.of(job.root().pid());
    }

    private void awaitHeld() throws Exception {
        assertTrue(
                Polling.until(Duration.ofSeconds(20), () -> fixture.table
                        .find(job.root().pid())
                        .filter(fixture.table::isHeld)
                        .isPresent()),
                () -> "PID " + job.root().pid() + " is not stopped; " + folder.resolve("output") + " has: "
                        + lastPrinted());
    }

    private String lastPrinted() {
        try {
            return String.join("\n", printed());
        } catch (IOException e) {
            return e.toString();
        }
    }

    private String checkpoint(String options) {
        return "exec cr_checkpoint -p " + job.root().pid() + " " + options;
    }

    // ---- the further notes ------------------------------------------------------------------------------------

    @Test
    void shouldBeInitsChildAgainAndEndAtOnceWhenItsParentWasInit() throws Exception {
        ProcessIdentity orphan = fixture.startOrphan(
                        "b", ROOT, "--size", "1m", "--passes", "1000", "--seed", "6", "--pace", "50")
                .root();
        assertEquals(0, run("exec cr_checkpoint -p " + orphan.pid() + " -f c --noclobber --stop"));
        fixture.signals.send(SignalSender.Signal.KILL, orphan);
        // Its PID is free only after init has reaped it.
        assertTrue(Polling.until(JobFixture.LIMIT, () -> !Files.exists(Path.of("/proc/" + orphan.pid()))));
        assertEquals(0, run("exec cr_restart -f c --stop"), () -> "it ends at once: " + folder);
        ProcessIdentity restored = fixture.table.of(orphan.pid());
        assertEquals(1, fixture.table.parent(restored));
        assertTrue(Polling.until(JobFixture.LIMIT, () -> fixture.table.isHeld(restored)));
    }

    @Test
    void shouldHaveAPidOfItsOwnWhenItIsNotRestored() throws Exception {
        assertEquals(0, run(checkpoint("-f c --clobber --stop")));
        Process restarted = start("exec cr_restart --no-restore-pid -f c --stop");
        ProcessIdentity tool = fixture.table.of((int) restarted.pid());
        assertTrue(Polling.until(JobFixture.LIMIT, () -> {
            List<ProcessIdentity> tree = fixture.table.tree(tool);
            return tree.size() == 2 && fixture.table.isHeld(tree.get(1));
        }));
        assertTrue(fixture.table.isAlive(job.root()), "beside its original");
    }

    @Test
    void shouldRefuseWhenThePidIsTaken() throws Exception {
        assertEquals(0, run(checkpoint("-f c --clobber --stop")));
        assertFalse(run("exec cr_restart -f c --stop") == 0);
        assertTrue(printed().get(0).startsWith("Restart failed: "), () -> "its output is in " + folder);
    }

    @Test
    void shouldWriteUnderATemporaryNameAndRenameWhenNothingElseIsSaid() throws Exception {
        assertEquals(0, run("mkdir d && " + checkpoint("-f d/c --stop")));
        assertEquals(List.of("c"), Arrays.asList(file("d").toFile().list()));
        Files.createDirectory(file("d/.e.tmp"));
        assertFalse(run(checkpoint("-f d/e --stop")) == 0, "the temporary name is .NAME.tmp");
    }

    @Test
    void shouldStreamThroughAFifoThatAnotherHoldsOpen() throws Exception {
        assertEquals(0, run("mkfifo fifo"));
        Process restarted = start("exec cr_restart --no-restore-pid -F 0 --stop < fifo");
        Process checkpointed = new ProcessBuilder(
                        "bash", "-c", "exec 3> fifo; PATH=" + fixture.bin + ":$PATH; " + checkpoint("-F 3 --stop"))
                .directory(folder.toFile())
                .start();
        started.add(checkpointed);
        assertTrue(checkpointed.waitFor(60, TimeUnit.SECONDS));
        assertEquals(0, checkpointed.exitValue());
        ProcessIdentity tool = fixture.table.of((int) restarted.pid());
        assertTrue(Polling.until(
                JobFixture.LIMIT,
                () -> fixture.table.tree(tool).size() == 2
                        && fixture.table.isHeld(fixture.table.tree(tool).get(1))));
    }

    @Test
    void shouldFailAndStillEndTheProcessWhenAFifoIsFull() throws Exception {
        assertEquals(0, run("mkfifo fifo"));
        assertEquals(ENXIO, run(checkpoint("--clobber --term -f fifo")), "nobody reads");
        assertTrue(fixture.table.isRunning(job.root()));
        Process reader = new ProcessBuilder("bash", "-c", "exec sleep 60 < fifo")
                .directory(folder.toFile())
                .start();
        started.add(reader);
        assertTrue(Polling.until(JobFixture.LIMIT, () -> {
            try {
                return run(checkpoint("--clobber --term -f fifo")) == EAGAIN;
            } catch (Exception e) {
                throw new CheckpointException("cr_checkpoint cannot be run", e);
            }
        }));
        assertTrue(Polling.until(JobFixture.LIMIT, () -> !fixture.table.isAlive(job.root())), "--term has ended it");
    }

    @Test
    void shouldRefuseAnAnonymousPipe() throws Exception {
        assertEquals(EINVAL, run("{ " + checkpoint("-F 3 --stop") + "; } 3> >(sleep 5)"));
        assertTrue(fixture.table.isRunning(job.root()));
    }
}
