package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class SchedulingTest {
    private static final int LARGER_THAN_ANY_PID = (1 << 22) + 1;

    private static Scheduling of(String... words) throws Exception {
        List<String> command = new ArrayList<>(List.of(words));
        command.addAll(List.of("sleep", "60"));
        Process process = new ProcessBuilder(command).start();
        try {
            // The command line changes when the shell becomes the program that sleeps.
            long deadlineNs = System.nanoTime() + 60_000_000_000L;
            while (!ProcStat.read("/proc/" + process.pid() + "/stat")
                            .orElseThrow()
                            .name()
                            .equals("sleep")
                    && System.nanoTime() < deadlineNs) {
                process.waitFor(10, TimeUnit.MILLISECONDS);
            }
            return Scheduling.of((int) process.pid()).orElseThrow();
        } finally {
            process.destroyForcibly().waitFor();
        }
    }

    @Test
    void shouldReturnTheNiceValueAndThePolicy() throws Exception {
        assertEquals(new Scheduling(7, 0, 0), of("nice", "-n", "7"));
        assertEquals(new Scheduling(0, 0, 3), of("chrt", "--batch", "0"));
    }

    @Test
    void shouldReturnARealTimePriority() throws Exception {
        assertEquals(new Scheduling(0, 12, 2), of("chrt", "--rr", "12"));
        assertEquals(new Scheduling(0, 3, 1), of("chrt", "--reset-on-fork", "--fifo", "3"));
    }

    @Test
    void shouldBeEmptyWhenThereIsNoSuchThread() {
        assertEquals(Optional.empty(), Scheduling.of(LARGER_THAN_ANY_PID));
    }
}
