package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests the stop of ranks before a tool is started. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CheckpointStepsIT {
    private static final long STOP_BIT = 1L << 18;
    private static final int TIMES = 5;

    private JobFixture fixture;
    private Process busy;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
    }

    @AfterEach
    void tearDown() throws Exception {
        if (busy != null) {
            busy.destroyForcibly();
        }
        if (fixture != null) {
            fixture.close();
        }
    }

    /** CRIU runs code in a stopped process. A SIGSTOP that is still pending there interrupts it, and the dump fails. */
    @Test
    void shouldLeaveNoSignalWaitingInAProcessWhenOneOfItsThreadsTakesLongToStop() throws Exception {
        JobFixture.Job job = fixture.start(
                "plain-job", "a", "--size", "1m", "--passes", "400", "--seed", "5", "--threads", "2", "--pace", "100");
        int root = job.root().pid();
        String processor = ProcStat.field(Path.of("/proc/self/status"), "Cpus_allowed_list")
                .orElseThrow()
                .split("[-,]", -1)[0];
        String slow = ProcessTable.numbers("/proc/" + root + "/task").stream()
                .filter(thread -> thread != root)
                .findFirst()
                .orElseThrow()
                .toString();
        for (List<String> words :
                List.of(List.of("taskset", "-pc", processor, slow), List.of("chrt", "--idle", "-p", "0", slow))) {
            Command.CommandResult result = CommandStarter.call(words, JobFixture.LIMIT);
            assertEquals(0, result.exitCode(), result.output());
        }
        busy = new ProcessBuilder("taskset", "-c", processor, "sh", "-c", "while :; do :; done").start();
        ToolKit kit = ToolKit.direct(fixture.programs);
        for (int time = 0; time < TIMES; time++) {
            CheckpointSteps steps = new CheckpointSteps(
                    fixture.checkpoint(0, job.root(), Files.createTempDirectory(fixture.base, "image"), "c" + time),
                    kit,
                    fixture.base.resolve("log"),
                    Map.of());
            List<ProcessIdentity> stopped = steps.stop();
            assertTrue(stopped.stream().allMatch(fixture.table::isHeld));
            String waiting = ProcStat.field(Path.of("/proc/" + root + "/status"), "ShdPnd")
                    .orElseThrow();
            assertFalse((Long.parseLong(waiting, 16) & STOP_BIT) != 0, "SIGSTOP waits in PID " + root);
            kit.signals().resume(0, stopped, JobFixture.LIMIT);
        }
    }
}
