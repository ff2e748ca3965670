package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs real programs to their ends. */
class CommandTest {
    private static final Duration LONG = Duration.ofSeconds(60);

    @TempDir
    private Path directory;

    private static Command sh(String script, String... arguments) {
        List<String> words = new java.util.ArrayList<>(List.of("/bin/sh", "-c", script, "sh"));
        words.addAll(List.of(arguments));
        return Command.of(words);
    }

    @Test
    void shouldSplitTheLineAloneWhenValuesHaveBlanks() {
        assertEquals(
                List.of("sh", "-c", "echo $1", "sh", "--pid=7", ""),
                Command.words("sh -c %s sh --pid=%s %s", "echo $1", 7, ""));
        assertThrows(IllegalArgumentException.class, () -> Command.words("kill %s", 1, 2));
        assertThrows(java.util.NoSuchElementException.class, () -> Command.words("kill %s %s", 1));
    }

    private static void await(BooleanSupplier condition) {
        long deadlineNs = System.nanoTime() + LONG.toNanos();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - deadlineNs < 0, "not within " + LONG);
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
    }

    private static boolean lives(long pid) {
        return ProcStat.read(Path.of("/proc/" + pid + "/stat"))
                .filter(stat -> !stat.isDead())
                .isPresent();
    }

    private long pidIn(String name) {
        Path file = directory.resolve(name);
        await(() -> {
            try {
                return Files.exists(file) && Files.readString(file).endsWith("\n");
            } catch (IOException e) {
                return false;
            }
        });
        try {
            return Long.parseLong(Files.readString(file).strip());
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    @Test
    void shouldGiveOutputAndStatusWhenItEnds() throws Exception {
        Command.CommandResult result = sh("echo out; echo err >&2; exit 3").run(LONG);
        assertEquals("out\nerr", result.output());
        assertEquals(3, result.exitCode());
        assertFalse(result.succeeded());
        assertTrue(result.describe().endsWith("exit status 3: out\nerr"), result.describe());
        assertEquals(
                "out", sh("echo out; echo err >&2").withoutErrors().run(LONG).output());
    }

    @Test
    void shouldRunWithItsDirectoryAndVariableAndNothingToRead() throws Exception {
        Command.CommandResult result = sh("pwd; echo $PPMR_TEST; cat")
                .in(directory)
                .with("PPMR_TEST", "x")
                .run(LONG);
        assertEquals(directory.toRealPath() + "\nx", result.output());
    }

    @Test
    void shouldReadMoreThanAPipeHolds() throws Exception {
        Command.CommandResult result =
                sh("head -c 1000000 /dev/zero | tr '\\0' x").run(LONG);
        assertTrue(result.succeeded());
        assertEquals(1_000_000, result.output().length());
    }

    @Test
    void shouldKillAProgramThatPrintsWithoutEnd() {
        IOException failure = assertThrows(IOException.class, () -> sh("echo $$ > \"$1\"; exec yes", directory + "/pid")
                .run(LONG));
        assertTrue(failure.getMessage().contains("prints more than"), failure.getMessage());
        await(() -> !lives(pidIn("pid")));
    }

    @Test
    void shouldTruncateTheOutputWhenAProgramPrintsMoreThanItsShare() throws Exception {
        OutputBudget budget = new OutputBudget(1000, 10, 500);
        try (OutputBudget.BudgetShare share = budget.open()) {
            Command.CommandResult result = sh("head -c 4000000 /dev/zero | tr '\\0' x; exit 7")
                    .withinBudget(share)
                    .run(LONG);
            assertEquals(7, result.exitCode());
            assertEquals("x".repeat(500), result.output());
            assertTrue(share.isTruncated());
        }
    }

    @Test
    void shouldBeKilledAtTheDeadlineWhenItsTruncatedOutputHasNoEnd() throws Exception {
        OutputBudget budget = new OutputBudget(0, 10, 10);
        try (OutputBudget.BudgetShare share = budget.open()) {
            Command.CommandResult result =
                    Command.of(List.of("yes")).withinBudget(share).run(Duration.ofMillis(500));
            assertTrue(result.timedOut());
            assertEquals("y\ny\ny\ny\ny", result.output());
        }
    }

    @Test
    void shouldStopReadingWhenItEndedAndADescendantPrintsWithoutEnd() throws Exception {
        OutputBudget budget = new OutputBudget(0, 1000, 1000);
        try (OutputBudget.BudgetShare share = budget.open()) {
            Command.CommandResult result = sh("yes & echo $! > \"$1\"", directory + "/pid")
                    .withinBudget(share)
                    .run(LONG);
            assertTrue(result.succeeded());
            assertTrue(
                    result.output().length() <= 1000, () -> "" + result.output().length());
        }
        // Its pipe no longer has a reader.
        await(() -> !lives(pidIn("pid")));
    }

    @Test
    void shouldShowTheBeginningOfALongOutputInAMessage() throws Exception {
        Command.CommandResult result =
                sh("head -c 100000 /dev/zero | tr '\\0' x; exit 1").run(LONG);
        assertEquals(100_000, result.output().length());
        assertTrue(
                result.describe().length() < 3000, () -> "" + result.describe().length());
        String failure = assertThrows(IOException.class, result::requireOutput).getMessage();
        assertTrue(failure.length() < 3000 && failure.contains("xxx"), failure);
    }

    @Test
    void shouldKillItWithItsDescendantsAtTheDeadline() throws Exception {
        String script = "echo said; sh -c 'echo $$ > \"$1\"; sleep 1000; true' sh \"$1\" & wait";
        Command.RunningCommand shells = sh(script, directory + "/pid").start();
        long pid = pidIn("pid");
        Command.CommandResult result = shells.await(Duration.ofSeconds(2));
        assertTrue(result.timedOut());
        assertFalse(result.succeeded());
        assertEquals("said", result.output());
        assertTrue(result.describe().contains("killed at its deadline"), result.describe());
        await(() -> !lives(pid));
    }

    @Test
    void shouldNotWaitForARemainingDescendant() throws Exception {
        long startNs = System.nanoTime();
        Command.CommandResult result = sh("sleep 1000 & echo $! > \"$1\"; echo done", directory + "/pid")
                .run(LONG);
        assertEquals("done", result.output());
        assertTrue(result.succeeded());
        assertTrue(System.nanoTime() - startNs < LONG.toNanos());
        long left = pidIn("pid");
        assertTrue(lives(left), "the caller does not end a remaining descendant");
        ProcessHandle.of(left).ifPresent(ProcessHandle::destroyForcibly);
    }

    @Test
    void shouldKillItAndThrowWhenItsCallerIsInterrupted() throws Exception {
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Thread caller = new Thread(
                () -> {
                    try {
                        sh("echo $$ > \"$1\"; exec sleep 1000", directory + "/pid")
                                .run(Duration.ofSeconds(1000));
                    } catch (IOException | InterruptedException e) {
                        thrown.set(e);
                    }
                },
                "caller");
        caller.start();
        long pid = pidIn("pid");
        caller.interrupt();
        caller.join();
        assertTrue(thrown.get() instanceof InterruptedException, () -> String.valueOf(thrown.get()));
        await(() -> !lives(pid));
    }

    @Test
    void shouldContinueAndKeepTheFlagWhenAnInterruptMustNotStopIt() throws Exception {
        Thread.currentThread().interrupt();
        try {
            Command.CommandResult result = sh("sleep 0.2; echo whole").runUninterruptibly(LONG);
            assertEquals("whole", result.output());
        } finally {
            assertTrue(Thread.interrupted(), "the interrupt is lost");
        }
    }

    @Test
    void shouldNameTheProgramThatCannotBeStarted() {
        String message = assertThrows(IOException.class, () -> Command.of(List.of("/nonexistent/program"))
                        .run(LONG))
                .getMessage();
        assertTrue(message.contains("/nonexistent/program") && message.contains("No such file"), message);
    }
}
