package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcStat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Kills the helper that stops a job for a round, before or after one of its system calls. The job computes on, no
 * thread of it stays stopped or traced, the next round is made, and in the end all of the job's memory is right.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RoundDeathIT {
    private static final Logger LOG = LoggerFactory.getLogger(RoundDeathIT.class);
    private static final int IN_GATE = 10;
    private static final int NEVER = Integer.MAX_VALUE;

    @TempDir
    private Path folder;

    private Process job;
    private int rounds;

    @BeforeEach
    void start() throws Exception {
        job = RoundTool.job(folder, "--threads", "2", "--children", "1", "--pace", "50", "--mib", "8");
    }

    @AfterEach
    void end() {
        RoundTool.kill(job);
    }

    @Test
    void shouldLetTheJobComputeWhenTheHelperIsKilledAtSomeOfItsSteps() throws Exception {
        int steps = round(NEVER);
        long seed = Long.getLong("ppmr.seed", System.nanoTime());
        LOG.info("{} steps; -Dppmr.seed={}", steps, seed);
        Random random = new Random(seed);
        for (int i = 0; i < IN_GATE; i++) {
            kill(1 + random.nextInt(steps));
        }
        RoundTool.requireRight(folder, job);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 1800, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldLetTheJobComputeWhenTheHelperIsKilledAtEachOfItsSteps() throws Exception {
        int steps = round(NEVER);
        for (int step = 1; step <= steps; step++) {
            kill(step);
        }
        LOG.info("{} kills, {} userfaultfds are left open in the job", steps, leftOpen());
        RoundTool.requireRight(folder, job);
    }

    private void kill(int step) throws Exception {
        round(step);
        for (long pid : processes()) {
            RoundTool.until("PID " + pid + " runs after a kill at step " + step, () -> runs(pid));
            assertFalse(
                    RoundTool.text(Path.of("/proc/" + pid + "/smaps")).contains(" uw"),
                    "PID " + pid + " has registered memory after a kill at step " + step);
        }
    }

    /** Makes a round whose helper is killed, and one whose helper is not. Returns the steps of the first helper. */
    private int round(int step) throws Exception {
        Path own = Files.createDirectory(folder.resolve("round-" + rounds++));
        Path steps = own.resolve("steps");
        List<String> before = List.of(
                RoundTool.program("ppmr.native.test.dir", "kill-at"), "stop", Integer.toString(step), steps.toString());
        try (RoundTool tool = new RoundTool(own, job, before, List.of("/bin/false"))) {
            String first = tool.round();
            String second = tool.round();
            assertTrue(
                    second.startsWith("round ") && second.contains(" untracked 0"),
                    () -> "after a kill at step " + step + ": " + first + "; " + second);
        }
        return Integer.parseInt(Files.readString(steps).strip());
    }

    private List<Long> processes() {
        return Stream.concat(Stream.of(job.toHandle()), job.descendants())
                .map(ProcessHandle::pid)
                .toList();
    }

    private static boolean runs(long pid) {
        try (Stream<Path> threads = Files.list(Path.of("/proc/" + pid + "/task"))) {
            return threads.map(thread -> ProcStat.read(thread.resolve("stat")))
                    .flatMap(Optional::stream)
                    .allMatch(Predicate.not(ProcStat::isStopped).and(Predicate.not(ProcStat::isTraced)));
        } catch (IOException gone) {
            return true;
        }
    }

    /** A helper that is killed while a thread makes a userfaultfd cannot have it closed again. */
    private long leftOpen() throws IOException {
        long open = 0;
        for (long pid : processes()) {
            try (Stream<Path> descriptors = Files.list(Path.of("/proc/" + pid + "/fd"))) {
                for (Path descriptor : descriptors.toList()) {
                    open += Files.readSymbolicLink(descriptor).toString().contains("userfaultfd") ? 1 : 0;
                }
            }
        }
        return open;
    }
}
