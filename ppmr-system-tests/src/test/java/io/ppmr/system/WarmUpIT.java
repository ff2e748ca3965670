package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.cli.warmup.WarmUp;
import io.ppmr.transaction.MappedJournal;
import io.ppmr.transaction.TransactionRecord;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The warm-up makes real migrations, keeps to its time, and leaves nothing behind whatever becomes of it. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WarmUpIT {
    private static final Duration LONG = Duration.ofMinutes(2);
    private static final int ENDLESS = 1_000_000;
    private static final PoolGeometry POOL = new PoolGeometry(128 * 1024, 64);
    private static final Path MOUNTS = Path.of("/proc/self/mountinfo");

    @TempDir
    private Path directory;

    /** A service that is killed in its warm-up. */
    static final class Killed {
        private Killed() {}

        public static void main(String[] arguments) throws Exception {
            Path directory = Path.of(arguments[0]);
            try (WarmUp warmUp = new WarmUp("test", directory, directory.resolve("journal"), POOL, LONG)) {
                warmUp.run(ENDLESS);
            }
        }
    }

    /** Runs a warm-up to its end, and gives how many migrations it made. */
    private int run(Path workDirectory, int migrations, Duration limit) throws InterruptedException {
        try (WarmUp warmUp = new WarmUp("test", workDirectory, directory.resolve("journal"), POOL, limit)) {
            return warmUp.run(migrations);
        }
    }

    private void assertNothingIsLeft() throws IOException {
        try (Stream<Path> names = Files.list(directory)) {
            assertEquals(
                    List.of("journal"),
                    names.map(name -> name.getFileName().toString()).toList());
        }
        assertTrue(mounts().isEmpty(), mounts()::toString);
    }

    private List<String> mounts() throws IOException {
        return Files.readAllLines(MOUNTS).stream()
                .filter(line -> line.contains(" " + directory.toString()))
                .toList();
    }

    @Test
    void shouldMoveProcessesAndLeaveNothingWhenThereIsTime() throws Exception {
        assertEquals(2, run(directory, 2, LONG));
        assertNothingIsLeft();
    }

    @Test
    void shouldEndAtItsLimitAndLeaveNothingWhenThereIsMoreToDo() throws Exception {
        for (int seconds = 1; seconds <= 4; seconds++) {
            int moved = run(directory, ENDLESS, Duration.ofSeconds(seconds));
            assertTrue(moved < ENDLESS, moved + " migrations");
            assertNothingIsLeft();
        }
    }

    @Test
    void shouldClearWhatIsLeftWhenAnEarlierServiceWasKilledInIt() throws Exception {
        List<String> words = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java"));
        words.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        words.addAll(List.of("-cp", System.getProperty("java.class.path"), Killed.class.getName()));
        words.add(directory.toString());
        Process killed = new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        try {
            while (mounts().isEmpty()) {
                assertTrue(killed.isAlive(), "it has ended by itself");
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
            }
        } finally {
            killed.destroyForcibly().waitFor();
        }
        assertEquals(1, run(directory, 1, LONG));
        assertNothingIsLeft();
    }

    @Test
    void shouldMoveNothingWhenRanksWaitForTheService() throws Exception {
        try (MappedJournal journal = MappedJournal.in(directory.resolve("journal"))) {
            journal.appendSynced(new TransactionRecord.Begun("open", 1, List.of("a:7"), List.of()));
        }
        assertEquals(0, run(directory, 2, LONG));
        assertNothingIsLeft();
    }

    @Test
    void shouldSayOneLineAndGoOnWhenItFails() throws Exception {
        Path file = Files.createFile(directory.resolve("no-directory"));
        List<LogRecord> said = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public synchronized void publish(LogRecord record) {
                said.add(record);
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger logger = Logger.getLogger("io.ppmr");
        logger.addHandler(handler);
        try {
            assertEquals(0, run(file, 2, LONG));
        } finally {
            logger.removeHandler(handler);
        }
        assertEquals(1, said.size(), said::toString);
        assertTrue(said.get(0).getMessage().contains("the warm-up failed"), said.get(0).getMessage());
    }
}
