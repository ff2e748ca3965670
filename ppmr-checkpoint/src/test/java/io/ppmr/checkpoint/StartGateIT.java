package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests a command that was started in advance, and waits for its gate. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class StartGateIT {
    private static final int NOT_STARTED = 125;
    /** The kernel's words for a process that waits for a lock, proc_locks(5). */
    private static final String WAITS = "-> POSIX";

    private JobFixture fixture;
    private Path ran;
    private StartGate gate;

    @BeforeEach
    void setUp() throws Exception {
        fixture = new JobFixture();
        Path work = Files.createDirectories(fixture.work("gate"));
        ran = work.resolve("ran");
        gate = StartGate.create(work.resolve("file"));
    }

    @AfterEach
    void tearDown() throws Exception {
        gate.close();
        fixture.close();
    }

    private Process launch() throws IOException {
        return new ProcessBuilder(
                        fixture.programs.launch().toString(),
                        "--gate",
                        gate.file().toString(),
                        "--",
                        "touch",
                        ran.toString())
                .redirectErrorStream(true)
                .start();
    }

    private static boolean isWaiting(Process process) throws IOException {
        return Files.readAllLines(Path.of("/proc/locks")).stream()
                .anyMatch(line -> line.contains(WAITS) && line.contains(" " + process.pid() + " "));
    }

    @Test
    void shouldRunTheCommandOnceItsGateIsOpened() throws Exception {
        Process waiting = launch();
        assertTrue(Polling.until(JobFixture.LIMIT, () -> isWaiting(waiting)));
        assertFalse(Files.exists(ran));
        gate.open();
        assertEquals(0, waiting.waitFor());
        assertTrue(Files.exists(ran));
    }

    @Test
    void shouldRunNothingWhenTheLockEndsAndTheGateWasNotOpened() throws Exception {
        Process waiting = launch();
        assertTrue(Polling.until(JobFixture.LIMIT, () -> isWaiting(waiting)));
        gate.close();
        assertEquals(NOT_STARTED, waiting.waitFor());
        assertFalse(Files.exists(ran));
    }

    @Test
    void shouldRunNothingWhenTheGateWasGoneBeforeItCame() throws Exception {
        gate.close();
        assertEquals(NOT_STARTED, launch().waitFor());
        assertFalse(Files.exists(ran));
    }
}
