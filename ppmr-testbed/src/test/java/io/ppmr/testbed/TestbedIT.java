package io.ppmr.testbed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests the remains of a run that ends, is ended by a signal, or is killed. */
@Timeout(120)
class TestbedIT {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    @TempDir
    private Path temporary;

    /** A run of its own: mounts and a process in its folder, until its input ends. */
    static final class Run {
        private Run() {}

        public static void main(String[] arguments) throws Exception {
            try (Testbed testbed = Testbed.create("it")) {
                Path mount = testbed.folder("mount");
                Command.of(List.of("mount", "-t", "tmpfs", "none", mount.toString()))
                        .run(LIMIT)
                        .requireOutput();
                Files.createDirectory(testbed.folder("journal").resolve("left"));
                Process process = new ProcessBuilder(
                                "tail",
                                "-f",
                                Files.createFile(mount.resolve("log")).toString())
                        .start();
                testbed.add(() -> process.destroyForcibly().waitFor());
                System.out.println(testbed.folder() + " " + process.pid());
                while (System.in.read() >= 0) {
                    // Waits until the user of this has seen enough.
                }
            }
        }
    }

    @BeforeEach
    void requireRoot() throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: mounts");
    }

    private ProcessBuilder run() {
        ProcessBuilder builder = new ProcessBuilder(
                System.getProperty("java.home") + "/bin/java",
                "-cp",
                System.getProperty("java.class.path"),
                Run.class.getName());
        builder.environment().put("TMPDIR", temporary.toString());
        return builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    }

    private static String[] begun(Process run) throws IOException {
        return run.inputReader().readLine().split(" ", -1);
    }

    private static boolean isGone(String[] folderAndPid) throws IOException {
        return !Files.exists(Path.of(folderAndPid[0]))
                && ProcessHandle.of(Long.parseLong(folderAndPid[1])).isEmpty()
                && !Files.readString(Path.of("/proc/self/mountinfo")).contains(folderAndPid[0]);
    }

    @Test
    void shouldLeaveNothingWhenItEndsOrIsToldToEnd() throws Exception {
        Process ends = run().start();
        String[] first = begun(ends);
        ends.getOutputStream().close();
        assertEquals(0, ends.waitFor());
        assertTrue(isGone(first), first[0]);
        Process told = run().start();
        String[] second = begun(told);
        told.destroy();
        told.waitFor();
        assertTrue(isGone(second), second[0]);
    }

    @Test
    void shouldClearWhatAKilledRunHasLeftButNotALivingOnesWhenTheNextBegins() throws Exception {
        Process lives = run().start();
        Process killed = run().start();
        try {
            String[] living = begun(lives);
            String[] left = begun(killed);
            killed.destroyForcibly().waitFor();
            assertTrue(Files.exists(Path.of(left[0])), "a killed run cleans up by itself?");
            Process next = run().start();
            begun(next);
            next.getOutputStream().close();
            assertEquals(0, next.waitFor());
            Conditions.until(LIMIT, "what the killed run has left is gone", () -> isGone(left));
            assertTrue(Files.isDirectory(Path.of(living[0], "journal")), "a living run's folder was taken");
            assertTrue(ProcessHandle.of(Long.parseLong(living[1])).isPresent(), "a living run's process was ended");
        } finally {
            lives.destroy();
            killed.destroyForcibly();
        }
        assertTrue(lives.waitFor() != 0);
    }

    @Test
    void shouldLeaveAFolderAloneWhenItIsAnotherUsers() throws Exception {
        Path foreign = Files.createDirectory(temporary.resolve("ppmr-testbed-demo-1"));
        Path elsewhere = Files.createDirectory(temporary.resolve("elsewhere"));
        Files.createFile(foreign.resolve("lock"));
        Files.createFile(elsewhere.resolve("lock"));
        Files.setAttribute(foreign, "unix:uid", 20001);
        Path link = Files.createSymbolicLink(temporary.resolve("ppmr-testbed-demo-2"), elsewhere);
        Process run = run().start();
        begun(run);
        run.getOutputStream().close();
        assertEquals(0, run.waitFor());
        assertTrue(Files.exists(foreign.resolve("lock")));
        assertTrue(Files.exists(link.resolve("lock")));
    }

    @Test
    void shouldSayWhatIsLeftAndCloseTheRestWhenSomethingCannotBeClosed() throws Exception {
        Testbed testbed = Testbed.create("it");
        boolean[] closed = new boolean[1];
        testbed.add(() -> closed[0] = true);
        testbed.add(() -> {
            throw new IOException("it is stuck");
        });
        IOException failure = assertThrows(IOException.class, testbed::close);
        assertEquals("left behind: it is stuck", failure.getMessage());
        assertTrue(closed[0]);
        assertFalse(Files.exists(testbed.folder()));
        assertThrows(IllegalStateException.class, () -> testbed.add(() -> closed[0] = false));
        assertFalse(closed[0], "what comes too late is closed at once");
    }
}
