package io.ppmr.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.CommandStarter;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.Polling;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/** Tests the program that srun starts for each rank, with the variables that srun would set. */
@Timeout(120)
class SlurmTaskIT {
    private static final Duration SOON = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    @TempDir
    private Path folder;

    private Path jobs;
    private Path moves;
    private final ProcessTable table = new ProcessTable();
    private final List<Process> started = new ArrayList<>();

    @BeforeEach
    void setUp() throws IOException {
        String own = "/" + JobUser.ofService().uid();
        jobs = Files.createDirectories(folder.resolve("announced/jobs" + own));
        moves = Files.createDirectories(folder.resolve("announced/moves" + own));
    }

    @AfterEach
    void tearDown() throws Exception {
        for (Process process : started) {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly().waitFor();
        }
    }

    private Process start(String... arguments) throws IOException {
        return start(Map.of(), arguments);
    }

    private Process start(Map<String, String> variables, String... arguments) throws IOException {
        List<String> words = new ArrayList<>(
                List.of(NativePrograms.fromSystemProperty().of(SlurmPart.TASK).toString()));
        words.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(words)
                .directory(folder.toFile())
                .redirectOutput(folder.resolve("said").toFile())
                .redirectError(folder.resolve("complained").toFile());
        builder.environment().put("SLURM_JOB_ID", "7");
        builder.environment().put("SLURM_STEP_ID", "0");
        builder.environment().put("SLURM_PROCID", "1");
        builder.environment().put("SLURMD_NODENAME", "n1");
        builder.environment().putAll(variables);
        Process process = builder.start();
        started.add(process);
        return process;
    }

    private Process run(String script) throws IOException {
        return start(
                "run",
                "--announce",
                folder.resolve("announced").toString(),
                "--checkpointer",
                "criu",
                "--spare",
                "n0:7411",
                "--spare",
                "n2:7411",
                "--output",
                "out-%j-%t-%N",
                "--doubt-limit",
                "2",
                "--",
                "sh",
                "-c",
                script);
    }

    private int end(Process process) throws Exception {
        assertTrue(process.waitFor(SOON.toSeconds(), TimeUnit.SECONDS), read("said") + read("complained"));
        return process.exitValue();
    }

    private String read(String file) throws IOException {
        try {
            return Files.readString(folder.resolve(file), StandardCharsets.UTF_8);
        } catch (NoSuchFileException e) {
            return "";
        }
    }

    private ProcessIdentity announced() throws Exception {
        Path file = jobs.resolve("slurm-7.0/rank-1");
        assertTrue(Polling.until(SOON, () -> Files.exists(file)));
        String text = Files.readString(file);
        assertTrue(text.endsWith("\ncheckpointer = \"criu\"\nspares = [\"n0:7411\", \"n2:7411\"]\n"), text);
        ProcessIdentity rank = table.of(Integer.parseInt(text.replaceAll("(?s)pid = (\\d+)\n.*", "$1")));
        assertTrue(text.contains("\nstart_ticks = " + rank.startTimeTicks() + "\n"), text);
        return rank;
    }

    /** Until the script has set its trap. */
    private void awaitReady() throws Exception {
        assertTrue(Polling.until(SOON, () -> Files.exists(folder.resolve("ready"))));
    }

    private void kill(ProcessIdentity process, String signal) throws Exception {
        assertEquals(
                0,
                CommandStarter.call(List.of("kill", "-" + signal, Integer.toString(process.pid())), SOON)
                        .exitCode());
    }

    private void record(String text) throws IOException {
        Path part = Files.writeString(folder.resolve("announced/part"), text);
        Files.move(part, moves.resolve("slurm-7.0"), java.nio.file.StandardCopyOption.ATOMIC_MOVE);
    }

    @Test
    void shouldEndAsTheRankEndsWhenItIsNotMoved() throws Exception {
        Process task = run("echo hello; echo there >&2; while [ ! -e stop ]; do sleep 0.05; done; exit 7");
        ProcessIdentity rank = announced();
        assertEquals(
                rank.pid(),
                ProcStat.read(Path.of("/proc", rank.pid() + "", "stat"))
                        .orElseThrow()
                        .session());
        assertTrue(Polling.until(SOON, () -> Files.exists(folder.resolve("out-7-1-n1"))));
        Files.createFile(folder.resolve("stop"));
        assertEquals(7, end(task));
        assertEquals("ppmr-rank 1 started slurm-7.0 n1\nppmr-rank 1 ended 7\n", read("said"));
        assertEquals("hello\nthere\n", read("out-7-1-n1"));
        assertEquals("", read("complained"));
        assertFalse(Files.exists(jobs.resolve("slurm-7.0")));
    }

    @Test
    void shouldLeaveNoDescriptorAboveTheStandardStreamsWhenTheRankStarts() throws Exception {
        assertEquals(0, end(run("ls -l /proc/self/fd")));
        List<String> open =
                read("out-7-1-n1").lines().filter(line -> line.contains("->")).toList();
        // ls itself has the directory open as descriptor 3.
        assertEquals(4, open.size(), open.toString());
        assertTrue(open.get(0).endsWith("0 -> /dev/null"), open.toString());
    }

    @Test
    void shouldEndWith137WhenTheRankIsKilledAndNothingMovedIt() throws Exception {
        record("rolled-back\n");
        Process task = run("exec sleep 50");
        kill(announced(), "KILL");
        assertEquals(137, end(task));
        assertTrue(read("said").endsWith("ppmr-rank 1 ended 137\n"));
    }

    @Test
    void shouldEndWith0AndSayWhereToWhenTheRankHasMoved() throws Exception {
        record("underway\n");
        Process task = run("exec sleep 50");
        kill(announced(), "KILL");
        assertFalse(task.waitFor(300, TimeUnit.MILLISECONDS), "it must wait for the migration's end");
        record("committed 192.0.2.20:7411\nrank 11 5\nrank 1 123,124\n");
        assertEquals(0, end(task));
        assertTrue(read("said").endsWith("ppmr-rank 1 moved 192.0.2.20:7411 123,124\n"), read("said"));
    }

    @Test
    void shouldEndWith137WhenAMigrationStaysInDoubt() throws Exception {
        record("in-doubt 192.0.2.20:7411\nrank 1 123\n");
        Process task = run("exec sleep 50");
        kill(announced(), "KILL");
        assertEquals(137, end(task));
        assertTrue(read("complained").contains("is in doubt"), read("complained"));
    }

    @Test
    void shouldPassSignalsOnAndForgetUsr2() throws Exception {
        Process task = run("trap 'exit 3' TERM; >ready; while :; do sleep 0.05; done");
        awaitReady();
        long pid = task.pid();
        for (String signal : List.of("USR2", "TERM")) {
            assertEquals(
                    0,
                    CommandStarter.call(List.of("kill", "-" + signal, Long.toString(pid)), SOON)
                            .exitCode());
        }
        assertEquals(3, end(task));
    }

    @Test
    void shouldRunTheRankWhenItCannotBeAnnounced() throws Exception {
        Files.delete(jobs);
        assertEquals(5, end(run("exit 5")));
        assertTrue(read("complained").contains("cannot be moved, since it cannot be announced"), read("complained"));
    }

    @Test
    void shouldSayWhatIsWrongWhenTheProgramCannotBeStarted() throws Exception {
        String announce = folder.resolve("announced").toString();
        assertEquals(127, end(start("run", "--announce", announce, "--checkpointer", "criu", "--", "no-such-program")));
        assertTrue(read("complained").contains("no-such-program: No such file"), read("complained"));
    }

    /** A program that truncates one, or writes past its buffer, does not do what was requested. */
    @Test
    void shouldBeRefusedByNameWhenAVariableOrAPathIsLongerThanAnyIs() throws Exception {
        String announce = folder.resolve("announced").toString();
        String longName = "n".repeat(300);
        String[] written = {
            "run", "--announce", announce, "--checkpointer", "criu", "--output", "%N".repeat(20), "--", "true"
        };
        assertEquals(125, end(start(Map.of("SLURMD_NODENAME", longName), written)));
        assertTrue(
                read("complained").contains("SLURMD_NODENAME has 300 bytes, and at most 255 are taken"),
                read("complained"));
        assertEquals(125, end(start(Map.of("SLURMD_NODENAME", "n".repeat(255)), written)));
        assertTrue(read("complained").contains("File name too long"), read("complained"));
        assertEquals(125, end(start(Map.of("SLURM_JOB_ID", longName), written)));
        assertTrue(read("complained").contains("SLURM_JOB_ID has 300 bytes"), read("complained"));
        assertEquals(125, end(start(Map.of("SLURM_PROCID", "1".repeat(60)), written)));
        assertTrue(read("complained").contains("is not a number from 0 to"), read("complained"));
        assertEquals(125, end(start("keep", "x".repeat(60) + ":2")));
        assertTrue(read("complained").contains("is not a number from 0 to"), read("complained"));
        written[2] = "/" + "a".repeat(4090);
        assertEquals(125, end(start(written)));
        assertTrue(read("complained").contains("File name too long"), read("complained"));
    }

    /** A process that is not the task's child, as a restored one. */
    private ProcessIdentity stranger(String script) throws Exception {
        Process process = new ProcessBuilder("sh", "-c", script)
                .directory(folder.toFile())
                .start();
        started.add(process);
        return table.of((int) process.pid());
    }

    private Process keep(ProcessIdentity... processes) throws Exception {
        List<String> pids = new ArrayList<>();
        for (ProcessIdentity process : processes) {
            pids.add(Integer.toString(process.pid()));
        }
        Process task = start("keep", "--unknown-exit", "75", "0:1", "5:" + String.join(",", pids));
        assertTrue(Polling.until(SOON, () -> {
            try {
                return read("said").contains("ppmr-rank 5 ");
            } catch (IOException e) {
                throw new CheckpointException("cannot be read", e);
            }
        }));
        return task;
    }

    @Test
    void shouldEndAsAMovedRankEndsWhenItIsStoppedAndContinuedMeanwhile() throws Exception {
        ProcessIdentity rank = stranger("while [ ! -e stop ]; do sleep 0.05; done; exit 9");
        Process task = keep(rank);
        kill(rank, "STOP");
        assertTrue(Polling.until(SOON, () -> "Tt".contains(state(rank))));
        Files.createFile(folder.resolve("stop"));
        kill(rank, "CONT");
        assertEquals(9, end(task));
        assertEquals("ppmr-rank 5 kept " + rank.pid() + "\nppmr-rank 5 ended 9\n", read("said"));
    }

    private static String state(ProcessIdentity process) throws CheckpointException {
        return String.valueOf(ProcStat.read(Path.of("/proc", process.pid() + "", "stat"))
                .orElseThrow(() -> new CheckpointException("it has ended"))
                .state());
    }

    @Test
    void shouldEndAMovedRankWhenItIsKilledItself() throws Exception {
        ProcessIdentity rank = stranger("while :; do sleep 0.05; done");
        Process task = keep(rank);
        task.destroyForcibly().waitFor();
        assertTrue(Polling.until(SOON, () -> !table.isAlive(rank)));
    }

    @Test
    void shouldPassATermOnToAMovedRank() throws Exception {
        ProcessIdentity rank = stranger("trap 'exit 4' TERM; >ready; while :; do sleep 0.05; done");
        awaitReady();
        Process task = keep(rank);
        task.destroy();
        assertEquals(4, end(task));
    }

    @Test
    void shouldSayThatTheStatusIsUnknownWhenTheRankHasEndedBefore() throws Exception {
        ProcessIdentity rank = stranger("exec sleep 50");
        started.get(0).destroyForcibly().waitFor();
        Process task = keep(rank);
        assertEquals(75, end(task));
        assertEquals("ppmr-rank 5 unknown 75\n", read("said"));
    }

    /** The kernel of BLCR's time has no descriptors of processes. */
    @EnabledIfSystemProperty(named = "os.arch", matches = "amd64")
    @Test
    void shouldWaitForARankThatItMayNotTraceWhenItHasNoDescriptorOfIt() throws Exception {
        Process rank = new ProcessBuilder("sleep", "60").start();
        started.add(rank);
        // Who traces it first keeps the second one from it.
        Process tracer = keep(List.of(), rank.pid());
        Process waiter = keep(List.of(System.getProperty("ppmr.demo.dir") + "/old-kernel"), rank.pid());
        assertFalse(waiter.waitFor(500, TimeUnit.MILLISECONDS), "it waits");
        rank.destroyForcibly();
        assertTrue(waiter.waitFor(SOON.toSeconds(), TimeUnit.SECONDS));
        assertEquals(75, waiter.exitValue(), "unknown");
        assertTrue(tracer.waitFor(SOON.toSeconds(), TimeUnit.SECONDS));
    }

    private Process keep(List<String> before, long pid) throws IOException {
        List<String> words = new ArrayList<>(before);
        words.add(NativePrograms.fromSystemProperty().of(SlurmPart.TASK).toString());
        words.addAll(List.of("keep", "0:" + pid));
        ProcessBuilder builder = new ProcessBuilder(words);
        builder.environment().put("SLURM_PROCID", "0");
        Process keeper = builder.start();
        started.add(keeper);
        assertEquals("ppmr-rank 0 kept " + pid, keeper.inputReader().readLine());
        return keeper;
    }
}
