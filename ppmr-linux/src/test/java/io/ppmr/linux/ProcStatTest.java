package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProcStatTest {
    private static String line(String name, char state) {
        return "77 (" + name + ") " + state
                + " 5 6 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200 184467440\n";
    }

    @Test
    void shouldReadTheRelevantFields() {
        assertEquals(new ProcStat(77, "job", 'T', 5, 7, 4194304, 11, 987654), ProcStat.parse(line("job", 'T')));
    }

    @Test
    void shouldReadFieldsBehindANameWithBlanksAndParentheses() {
        assertEquals(
                new ProcStat(77, "a) R 1 (b", 'S', 5, 7, 4194304, 11, 987654), ProcStat.parse(line("a) R 1 (b", 'S')));
    }

    @Test
    void shouldNotCountATracedStopAsAStop() {
        assertTrue(ProcStat.parse(line("job", 'T')).isStopped());
        assertFalse(ProcStat.parse(line("job", 't')).isStopped());
        assertTrue(ProcStat.parse(line("job", 'Z')).isDead());
    }

    @Test
    void shouldBeEmptyWhenTheProcessIsGone() {
        assertTrue(ProcStat.read(Path.of("/proc/2147483647/stat")).isEmpty());
    }

    @Test
    void shouldNotCountAnUnreadableProcessAsGone() {
        // Address 0 is not mapped, so reading there fails like an open without free descriptors.
        assertThrows(UncheckedIOException.class, () -> ProcStat.read(Path.of("/proc/self/mem")));
    }

    @Test
    void shouldRefuseALineWithoutAName() {
        assertThrows(IllegalArgumentException.class, () -> ProcStat.parse("77 job T"));
    }

    /** The kernel may assign a PID to another process between two scans. */
    @Test
    void shouldCountAsGoneWhenAnotherProcessReplacesIt(@TempDir Path folder) throws Exception {
        Path stat = folder.resolve("stat");
        Path spare =
                Files.writeString(folder.resolve("spare"), "7 (a) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n");
        AtomicBoolean over = new AtomicBoolean();
        Thread flips = new Thread(() -> {
            while (!over.get()) {
                try {
                    Files.createLink(stat, spare);
                    Files.delete(stat);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            }
        });
        flips.start();
        try {
            int found = 0;
            for (int i = 0; i < 20_000; i++) {
                found += ProcStat.read(stat).isPresent() ? 1 : 0;
            }
            assertTrue(found > 0 && found < 20_000, found + " of 20000 were found");
        } finally {
            over.set(true);
            flips.join();
        }
    }
}
