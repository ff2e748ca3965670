package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeout;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.ppmr.linux.BorrowedObject;
import io.ppmr.linux.LibC;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A user puts a file of a filesystem that never responds in place of a socket or a pipe. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BorrowedUserFileIT {
    private static final int PATIENCE = Integer.getInteger("ppmr.patience", 1);
    private static final Duration SOON = Duration.ofSeconds(2L * PATIENCE);
    private static final int MOST_UNCLOSED = 16;

    private final CountDownLatch answers = new CountDownLatch(1);
    private final AtomicInteger asked = new AtomicInteger();
    /** The shell itself closes the file once. */
    private volatile boolean isSilent;

    private final class SilentView extends InMemoryView {
        /** Blocks without the lock of the other calls: only close is never answered. */
        @Override
        @SuppressWarnings("UnsynchronizedOverridesSynchronized")
        public void flush(long handle) {
            if (!isSilent) {
                return;
            }
            asked.incrementAndGet();
            try {
                answers.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static String borrow(Process process) {
        return assertTimeout(
                        SOON,
                        () -> assertThrows(IOException.class, () -> BorrowedObject.of((int) process.pid(), 0)
                                .close()))
                .getMessage();
    }

    @Test
    void shouldContinueAndRefuseByNameWhenFilesInPlaceOfSocketsAreNeverClosed(@TempDir Path folder) throws Exception {
        assumeTrue(LibC.isRoot(), "only root borrows descriptors");
        Path mountPoint = Files.createDirectory(folder.resolve("mnt"));
        Process pipe = new ProcessBuilder("sleep", "600").start();
        Process attacker = null;
        try (FuseMount mount = FuseMount.mount(new SilentView(), mountPoint, MountOptions.named("ppmr-silent"))) {
            Path script = Files.writeString(folder.resolve("attack"), """
                    exec 0<>"$1/file"
                    echo ready
                    exec sleep 600 2>/dev/null
                    """);
            attacker = new ProcessBuilder("bash", script.toString(), mountPoint.toString()).start();
            assertEquals("ready", attacker.inputReader().readLine());
            isSilent = true;
            for (int time = 0; time < MOST_UNCLOSED; time++) {
                String said = borrow(attacker);
                assertTrue(said.contains("is no pipe and no socket"), said);
            }
            String said = borrow(attacker);
            assertTrue(
                    said.startsWith(MOST_UNCLOSED + " files that processes have replaced sockets")
                            && said.contains("Remedy: "),
                    said);
            assertTrue(borrow(pipe).startsWith(MOST_UNCLOSED + " files"), "no further thread is risked");
            assertTrue(asked.get() > 0, "the filesystem was asked, and does not answer");
            answers.countDown();
            long deadlineNs = System.nanoTime() + SOON.multipliedBy(10).toNanos();
            while (!isBorrowed(pipe) && System.nanoTime() - deadlineNs < 0) {
                Thread.onSpinWait();
            }
            assertTrue(isBorrowed(pipe), "the files are closed, and sockets are looked at again");
        } finally {
            answers.countDown();
            pipe.destroyForcibly().waitFor();
            if (attacker != null) {
                attacker.destroyForcibly().waitFor();
            }
        }
    }

    private static boolean isBorrowed(Process process) {
        try (BorrowedObject object = BorrowedObject.of((int) process.pid(), 0)) {
            return object.isOwnedBy(0, 0);
        } catch (IOException e) {
            return false;
        }
    }
}
