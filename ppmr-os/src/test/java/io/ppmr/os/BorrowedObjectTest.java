package io.ppmr.os;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Gives pipes of another process away, and nothing else: it is root that gives, and the user that exchanges. */
@Timeout(30)
class BorrowedObjectTest {
    private static final int USER = 20_001;

    @TempDir
    private Path directory;

    private interface Attempt {
        void with(int pid) throws IOException;
    }

    private static void run(ProcessBuilder.Redirect input, Attempt attempt) throws Exception {
        assumeTrue(LibC.isRoot(), "only root gives files away");
        Process process = new ProcessBuilder("sleep", "60").redirectInput(input).start();
        try {
            attempt.with((int) process.pid());
        } finally {
            process.destroyForcibly();
            assertTrue(process.waitFor(10, TimeUnit.SECONDS));
        }
    }

    private static Object ownerOf(String path) throws IOException {
        return Files.getAttribute(Path.of(path), "unix:uid");
    }

    private static void give(int pid) throws IOException {
        try (BorrowedObject pipe = BorrowedObject.of(pid, 0)) {
            pipe.giveTo(USER, USER);
        }
    }

    @Test
    void shouldGiveAPipeToItsUser() throws Exception {
        run(ProcessBuilder.Redirect.PIPE, pid -> {
            give(pid);
            assertEquals(USER, ownerOf("/proc/" + pid + "/fd/0"));
        });
    }

    /** A user who sets a copy going could put another file in the place of a pipe. */
    @Test
    void shouldGiveNoFileAwayThatIsInThePlaceOfAPipe() throws Exception {
        Path file = Files.createFile(directory.resolve("of-root"));
        run(ProcessBuilder.Redirect.from(file.toFile()), pid -> {
            assertThrows(IOException.class, () -> give(pid));
            assertEquals(0, ownerOf(file.toString()));
        });
    }

    @Test
    void shouldGiveNoPipeAwayThatHasAName() throws Exception {
        Path fifo = directory.resolve("fifo");
        assertEquals(0, new ProcessBuilder("mkfifo", fifo.toString()).start().waitFor());
        // Both ends at once, so that opening it does not wait.
        Process process = new ProcessBuilder("sh", "-c", "exec sleep 60 0<>" + fifo).start();
        try {
            assumeTrue(LibC.isRoot(), "only root gives files away");
            while (!"sleep"
                    .equals(Files.readString(Path.of("/proc/" + process.pid() + "/comm"))
                            .strip())) {
                Thread.onSpinWait();
            }
            assertThrows(IOException.class, () -> give((int) process.pid()));
            assertEquals(0, ownerOf(fifo.toString()));
        } finally {
            process.destroyForcibly();
            assertTrue(process.waitFor(10, TimeUnit.SECONDS));
        }
    }
}
