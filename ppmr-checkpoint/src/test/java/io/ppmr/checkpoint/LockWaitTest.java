package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class LockWaitTest {
    @TempDir
    private Path folder;

    /** The names of several kernels: 3.10, 4.4, 5.4 and 6.18. */
    @ParameterizedTest
    @CsvSource({
        "flock_lock_file_wait, 73 0x3 0x2 0x0 0x1b6 0x7fff998f8c50 0x0 0x7fff998f8c18 0x7f475f0d4897",
        "posix_lock_file_wait, 72 0x3 0x7 0x55a739cb4930 0x0 0x1 0x0 0x7ffebc1a1530 0x7ff7d19e2810",
        "flock_lock_inode_wait, 73 0x3 0x2 0x0 0x1b6 0x7fff998f8c50 0x0 0x7fff998f8c18 0x7f475f0d4897",
        "locks_lock_inode_wait, 73 0x3 0x2 0x0 0x1b6 0x7fff998f8c50 0x0 0x7fff998f8c18 0x7f475f0d4897",
        "fcntl_setlk, 72 0x3 0x7 0x55a739cb4930 0x0 0x1 0x55a739c5f3f0 0x7ffebc1a1530 0x7ff7d19e2810"
    })
    void shouldNameTheFileWhenAProcessWaitsForItsLock(String place, String call) throws Exception {
        show(place, call);
        assertEquals(Optional.of("/home/user/database"), LockWait.file(folder));
    }

    @ParameterizedTest
    @ValueSource(strings = {"0", "", "do_wait", "hrtimer_nanosleep", "ep_poll"})
    void shouldTellNothingWhenAProcessWaitsElsewhere(String place) throws Exception {
        show(place, "73 0x3 0x2 0x0 0x1b6 0x7fff998f8c50 0x0 0x7fff998f8c18 0x7f475f0d4897");
        assertEquals(Optional.empty(), LockWait.file(folder));
        assertEquals(Optional.empty(), LockWait.file(folder.resolve("gone")));
    }

    /** The kernel may hide the arguments of the call, and the descriptor may be gone. */
    @ParameterizedTest
    @ValueSource(strings = {"", "running", "-1 0x7fff998f8c18 0x7f475f0d4897", "73 0xffffffffffffffff 0x2", "73 0x9 2"})
    void shouldTellOfTheLockAllTheSameWhenItsFileIsNotKnown(String call) throws Exception {
        show("locks_lock_inode_wait", call);
        assertEquals(Optional.of("of unknown name"), LockWait.file(folder));
    }

    private void show(String place, String call) throws Exception {
        Files.writeString(folder.resolve("wchan"), place);
        Files.writeString(folder.resolve("syscall"), call);
        Files.createSymbolicLink(
                Files.createDirectory(folder.resolve("fd")).resolve("3"), Path.of("/home/user/database"));
    }

    @Test
    void shouldFindARealProcessThatWaits() throws Exception {
        Path file = Files.createFile(folder.resolve("locked"));
        Process holder = new ProcessBuilder("flock", file.toString(), "sleep", "100").start();
        try {
            assertTrue(Polling.until(
                    JobFixture.LIMIT, () -> holder.descendants().findAny().isPresent()));
            Process waiter = new ProcessBuilder("flock", file.toString(), "true").start();
            try {
                assertTrue(
                        Polling.until(JobFixture.LIMIT, () -> LockWait.file(Path.of("/proc/" + waiter.pid()))
                                .equals(Optional.of(file.toString()))),
                        () -> "it waits at " + waiter.pid());
            } finally {
                waiter.destroyForcibly().waitFor(JobFixture.LIMIT.toSeconds(), TimeUnit.SECONDS);
            }
        } finally {
            holder.descendants().forEach(ProcessHandle::destroyForcibly);
            holder.destroyForcibly();
        }
    }
}
