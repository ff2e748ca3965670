package io.ppmr.linux;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Runs a program to its end and collects its output. The program runs without a shell, with {@code /dev/null} as its
 * input. Its standard error is part of its output unless the caller disables that. At its deadline it is killed with
 * all its descendants.
 *
 * <p>The output goes through a pipe of this class. The JDK would read its own pipe to the end when the program ends,
 * and a remaining descendant may write there forever. For one thread, which also owns the result of {@link #start}.
 */
public final class Command {
    /** Default limit: a program that prints more than this is killed. */
    public static final int OUTPUT_MAX_BYTES = 1 << 20;

    /** Maximum characters of the output in a message. */
    private static final int SHOWN_CHARACTERS = 2000;
    /** Bytes that are read between two checks of the deadline, and at each check of a truncated output. */
    private static final int READ_BYTES = 1 << 20;

    private static final int TRUNCATED_READ_BYTES = 64 << 10;
    private static final int PIECE_BYTES = 8 << 10;

    private static final File NULL = new File("/dev/null");
    private static final long CHECK_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final int KILLED = -1;

    private final ProcessBuilder builder;
    private int maxBytes = OUTPUT_MAX_BYTES;
    private OutputBudget.BudgetShare share;

    private Command(List<String> words) {
        builder = new ProcessBuilder(words).redirectInput(NULL).redirectErrorStream(true);
    }

    /**
     * Sets close-on-exec for all jars that this JVM has open, so that programs started later do not inherit them. The
     * JDK otherwise has each program list its inherited descriptors and close them one by one: seventy take half a
     * millisecond. Jars stay open as long as the JVM runs, so the number of a jar's descriptor is not reused by another
     * thread.
     */
    public static void inheritNoJars() {
        try (DirectoryStream<Path> descriptors = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (Path descriptor : descriptors) {
                if (isJar(descriptor)) {
                    int number = Integer.parseInt(descriptor.getFileName().toString());
                    LibC.CALLS.fcntl(number, LibC.SET_DESCRIPTOR_FLAGS, LibC.CLOSE_ON_EXEC);
                }
            }
        } catch (IOException | DirectoryIteratorException e) {
            throw new UncheckedIOException("/proc/self/fd cannot be listed. Remedy: mount /proc", new IOException(e));
        }
    }

    private static boolean isJar(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString().endsWith(".jar");
        } catch (IOException closed) {
            return false;
        }
    }

    /** Creates a command from a program and its arguments. A program without a slash is searched for in PATH. */
    public static Command of(List<String> words) {
        return new Command(words);
    }

    /**
     * Splits a command line at single blanks. A word that contains {@code %s} gets the next value in that place, and
     * blanks in the value do not split it.
     *
     * @return a list that the caller may add to
     * @throws java.util.NoSuchElementException if there are fewer values than words with {@code %s}
     * @throws IllegalArgumentException if there are more
     */
    public static List<String> words(String line, Object... values) {
        Iterator<Object> next = Arrays.asList(values).iterator();
        List<String> words = new ArrayList<>();
        for (String word : line.split(" ", -1)) {
            words.add(word.contains("%s") ? word.replace("%s", String.valueOf(next.next())) : word);
        }
        if (next.hasNext()) {
            throw new IllegalArgumentException("'" + line + "' has no %s for the value " + next.next());
        }
        return words;
    }

    /** Sets the working directory, which is this process's by default. */
    public Command in(Path directory) {
        builder.directory(directory.toFile());
        return this;
    }

    /** Adds a variable to the environment, which is otherwise this process's. */
    public Command with(String variable, String value) {
        builder.environment().put(variable, value);
        return this;
    }

    /** Discards standard error. */
    public Command withoutErrors() {
        builder.redirectErrorStream(false).redirectError(ProcessBuilder.Redirect.DISCARD);
        return this;
    }

    /** Sets the limit of output above which the program is killed; the default is {@link #OUTPUT_MAX_BYTES}. */
    public Command withOutputLimit(int bytes) {
        maxBytes = bytes;
        return this;
    }

    /**
     * Limits the kept output to the share. The rest is read slowly and discarded. So the program is not killed, and
     * reading its output needs little processor time.
     */
    public Command withinBudget(OutputBudget.BudgetShare byShare) {
        share = byShare;
        return this;
    }

    /**
     * The result of a program that ended or was killed.
     *
     * @param words the program and its arguments
     * @param exitCode its exit status; 128 plus the signal's number if a signal ended it; -1 if it was killed at its
     *     deadline
     * @param output the printed text, without surrounding blanks
     */
    public record CommandResult(List<String> words, int exitCode, String output) {
        /** Returns true if the program exited with status 0. */
        public boolean succeeded() {
            return exitCode == 0;
        }

        /** Returns true if the program was killed at its deadline. */
        public boolean timedOut() {
            return exitCode == KILLED;
        }

        /** Returns the output. Throws if the program did not exit with status 0. */
        public String requireOutput() throws IOException {
            if (timedOut()) {
                throw new IOException(describe());
            }
            if (!succeeded()) {
                throw new IOException(
                        SecretWords.hidden(words) + " failed with status " + exitCode + ": " + shown(output));
            }
            return output;
        }

        /** Describes the program, its exit and its output, for a message. */
        public String describe() {
            String how = timedOut() ? "killed at its deadline" : "exit status " + exitCode;
            return "'" + SecretWords.hidden(words) + "': " + how + (output.isEmpty() ? "" : ": " + shown(output));
        }

        private static String shown(String output) {
            return output.length() <= SHOWN_CHARACTERS
                    ? output
                    : output.substring(0, SHOWN_CHARACTERS) + " ... (" + output.length() + " characters)";
        }
    }

    /**
     * Runs the program.
     *
     * @throws IOException if it cannot be started, or prints too much
     * @throws InterruptedException if the caller is interrupted; the program is killed then
     */
    public CommandResult run(Duration limit) throws IOException, InterruptedException {
        return start().await(limit);
    }

    /**
     * Runs the program, and continues when the thread is interrupted. A clean-up is often interrupted itself. The
     * thread's interrupt flag is set again afterwards.
     *
     * @throws IOException if it cannot be started, or prints too much
     */
    public CommandResult runUninterruptibly(Duration limit) throws IOException {
        try {
            return start().await(limit, false);
        } catch (InterruptedException e) {
            throw new IllegalStateException("this wait continues when it is interrupted", e);
        }
    }

    /** Starts the program, for a caller that runs several at once. */
    public RunningCommand start() throws IOException {
        if (!builder.redirectOutput().equals(ProcessBuilder.Redirect.PIPE)) {
            return new RunningCommand(builder.command(), builder.start(), null, maxBytes, share);
        }
        int[] ends = new int[2];
        if (LibC.CALLS.pipe2(ends, LibC.OPEN_CLOSE_ON_EXEC) != 0) {
            throw new IOException(
                    "no pipe for the output of " + builder.command().get(0) + ": " + LibC.describe(LibC.errno())
                            + ". Remedy: raise the limit of open files");
        }
        try {
            FileInputStream from = new FileInputStream(ownDescriptor(ends[0]));
            try {
                // Reset below: the builder belongs to the caller, which may start another program.
                builder.redirectOutput(ownDescriptor(ends[1]));
                return new RunningCommand(builder.command(), builder.start(), from, maxBytes, share);
            } catch (IOException e) {
                from.close();
                throw e;
            } finally {
                builder.redirectOutput(ProcessBuilder.Redirect.PIPE);
            }
        } finally {
            LibC.CALLS.close(ends[0]);
            LibC.CALLS.close(ends[1]);
        }
    }

    private static File ownDescriptor(int number) {
        return new File("/proc/self/fd/" + number);
    }

    /** A started program. The thread that started it waits for it or kills it. */
    public static final class RunningCommand {
        private final List<String> words;
        private final Process process;
        private final FileInputStream from;
        private final int maxBytes;
        private final OutputBudget.BudgetShare share;
        private final ByteArrayOutputStream output = new ByteArrayOutputStream();
        private final byte[] piece = new byte[PIECE_BYTES];
        private boolean closed;

        /**
         * @param from the program's output; null if it is discarded
         * @param share null if the program is killed when it prints more than {@code maxBytes}
         */
        private RunningCommand(
                List<String> words,
                Process process,
                FileInputStream from,
                int maxBytes,
                OutputBudget.BudgetShare share) {
            this.words = List.copyOf(words);
            this.process = process;
            this.from = from;
            this.maxBytes = maxBytes;
            this.share = share;
            this.closed = from == null;
        }

        /** Waits for the program's end, and kills it at the deadline. */
        public CommandResult await(Duration limit) throws IOException, InterruptedException {
            return await(limit, true);
        }

        private CommandResult await(Duration limit, boolean interruptible) throws IOException, InterruptedException {
            long deadlineNs = System.nanoTime() + limit.toNanos();
            boolean interrupted = false;
            boolean ended = false;
            try {
                long remainingNs = limit.toNanos();
                while (!ended && remainingNs > 0) {
                    try {
                        ended = process.waitFor(Math.min(remainingNs, CHECK_NS), TimeUnit.NANOSECONDS);
                    } catch (InterruptedException e) {
                        if (interruptible) {
                            throw e;
                        }
                        interrupted = true;
                    }
                    read();
                    remainingNs = deadlineNs - System.nanoTime();
                }
            } finally {
                if (!ended) {
                    kill();
                }
                closeOutput();
                if (interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
            return new CommandResult(
                    words,
                    ended ? process.exitValue() : KILLED,
                    output.toString(StandardCharsets.UTF_8).strip());
        }

        public boolean isAlive() {
            return process.isAlive();
        }

        /** Reads only the available bytes: a remaining descendant may keep the pipe open and write forever. */
        private void read() throws IOException {
            int remainingBytes = isTruncated() ? TRUNCATED_READ_BYTES : READ_BYTES;
            for (int bytes = available(); bytes > 0 && remainingBytes > 0; bytes = available()) {
                int got = from.read(piece, 0, Math.min(bytes, piece.length));
                remainingBytes -= got;
                output.write(piece, 0, share == null ? got : share.admit(got));
                if (output.size() > maxBytes && share == null) {
                    kill();
                    throw new IOException(
                            "'" + SecretWords.hidden(words) + "' prints more than " + maxBytes + " bytes");
                }
            }
        }

        private boolean isTruncated() {
            return share != null && share.isTruncated();
        }

        private int available() throws IOException {
            return closed ? 0 : from.available();
        }

        private void closeOutput() {
            try {
                if (!closed) {
                    closed = true;
                    from.close();
                }
            } catch (IOException e) {
                throw new UncheckedIOException("the output of '" + words.get(0) + "' cannot be closed", e);
            }
        }

        /**
         * Kills the program and all its descendants. Does not wait for their end, because a process may hang in the
         * kernel.
         */
        public void kill() {
            closeOutput();
            List<ProcessHandle> descendants = process.descendants().toList();
            process.destroyForcibly();
            descendants.forEach(descendant -> {
                descendant.descendants().forEach(ProcessHandle::destroyForcibly);
                descendant.destroyForcibly();
            });
        }
    }
}
