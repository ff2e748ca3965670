package io.ppmr.os;

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
 * A program that is run to its end and whose output is wanted. It is run without a shell, with {@code /dev/null} as its
 * input; its standard error is part of its output unless the caller says otherwise. At its deadline it is killed with
 * all its descendants. Its output comes through a pipe of this class's own: the JDK reads all of its own pipe when the
 * program ends, and a process that it left behind may write there without end. For one thread; what {@link #start}
 * gives is the starting thread's.
 */
public final class Command {
    /** A program that prints more than this is killed, unless the caller has set another limit. */
    public static final int OUTPUT_MAX_BYTES = 1 << 20;

    /** A message has this much of the output. */
    private static final int SHOWN_CHARACTERS = 2000;
    /** Bytes that are read between two checks of the deadline, and at each check of a truncated output. */
    private static final int READ_BYTES = 1 << 20;

    private static final int CUT_READ_BYTES = 64 << 10;
    private static final int PIECE_BYTES = 8 << 10;

    private static final File NULL = new File("/dev/null");
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final int KILLED = -1;

    private final ProcessBuilder builder;
    private int mostBytes = OUTPUT_MAX_BYTES;
    private OutputBudget.BudgetShare share;

    private Command(List<String> words) {
        builder = new ProcessBuilder(words).redirectInput(NULL).redirectErrorStream(true);
    }

    /**
     * Has the programs that this JVM starts from now on inherit none of the jars that it has open by now. The JDK has
     * each of them list what it inherits and close it, one by one: for seventy files that is half a millisecond. Jars
     * stay open as long as the JVM runs, so a number that is one's cannot be another thread's a moment later.
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

    /** A program and its arguments; it is searched for in PATH if it has no slash in it. */
    public static Command of(List<String> words) {
        return new Command(words);
    }

    /**
     * Gives the words of a command line, which is split at its single blanks. A word with a {@code %s} in it has the
     * next value in that place, whatever the value is: its blanks split nothing.
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
            throw new IllegalArgumentException("'" + line + "' has no place for " + next.next());
        }
        return words;
    }

    /** Runs in a directory instead of this process's. */
    public Command in(Path directory) {
        builder.directory(directory.toFile());
        return this;
    }

    /** Adds a variable to the environment, which is this process's otherwise. */
    public Command with(String variable, String value) {
        builder.environment().put(variable, value);
        return this;
    }

    /** Its standard error goes nowhere. */
    public Command withoutErrors() {
        builder.redirectErrorStream(false).redirectError(ProcessBuilder.Redirect.DISCARD);
        return this;
    }

    /** Kills it when it prints more than this, instead of {@link #OUTPUT_MAX_BYTES}. */
    public Command upTo(int bytes) {
        mostBytes = bytes;
        return this;
    }

    /**
     * Keeps of its output what the share admits. The rest is read slowly and thrown away, so its writer is neither
     * ended nor takes a processor here.
     */
    public Command cutBy(OutputBudget.BudgetShare byShare) {
        share = byShare;
        return this;
    }

    /** Only its exit status is wanted. */
    public Command withoutOutput() {
        builder.redirectOutput(ProcessBuilder.Redirect.DISCARD);
        return withoutErrors();
    }

    /**
     * The way in which a program ended.
     *
     * @param words the program and its arguments
     * @param exitCode its exit status, 128 and the signal's number where one ended it, -1 if it was killed at its
     *     deadline
     * @param output what it has printed, without blanks around it
     */
    public record CommandResult(List<String> words, int exitCode, String output) {
        /** Returns true if it ended by itself and with 0. */
        public boolean succeeded() {
            return exitCode == 0;
        }

        /** Returns true if it had to be killed at its deadline. */
        public boolean timedOut() {
            return exitCode == KILLED;
        }

        /** Returns what it has printed; throws if it did not end by itself and with 0. */
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

        /** The program, how it ended and what it printed, for a message. */
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
     * Runs it.
     *
     * @throws IOException if it cannot be started, or prints too much
     * @throws InterruptedException if the caller is interrupted; the program is killed then
     */
    public CommandResult run(Duration limit) throws IOException, InterruptedException {
        return start().await(limit);
    }

    /**
     * Runs it, and an interrupt does not stop it, since it comes in the middle of a clean-up as likely as not; the flag
     * is set again afterwards.
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

    /** Starts it, for a caller that starts several. */
    public RunningCommand start() throws IOException {
        if (!builder.redirectOutput().equals(ProcessBuilder.Redirect.PIPE)) {
            return new RunningCommand(builder.command(), builder.start(), null, mostBytes, share);
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
                // The builder is the caller's, and may start another one.
                builder.redirectOutput(ownDescriptor(ends[1]));
                return new RunningCommand(builder.command(), builder.start(), from, mostBytes, share);
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

    /** A program that was started; its starter waits for it or kills it. */
    public static final class RunningCommand {
        private final List<String> words;
        private final Process process;
        private final FileInputStream from;
        private final int mostBytes;
        private final OutputBudget.BudgetShare share;
        private final ByteArrayOutputStream output = new ByteArrayOutputStream();
        private final byte[] piece = new byte[PIECE_BYTES];
        private boolean closed;

        /**
         * @param from its output; null where none is wanted
         * @param share null where it is killed when it prints more than {@code mostBytes}
         */
        private RunningCommand(
                List<String> words,
                Process process,
                FileInputStream from,
                int mostBytes,
                OutputBudget.BudgetShare share) {
            this.words = List.copyOf(words);
            this.process = process;
            this.from = from;
            this.mostBytes = mostBytes;
            this.share = share;
            this.closed = from == null;
        }

        /** Waits for its end, and kills it at the deadline. */
        public CommandResult await(Duration limit) throws IOException, InterruptedException {
            return await(limit, true);
        }

        private CommandResult await(Duration limit, boolean interruptible) throws IOException, InterruptedException {
            long deadlineNs = System.nanoTime() + limit.toNanos();
            boolean interrupted = false;
            boolean ended = false;
            try {
                long leftNs = limit.toNanos();
                while (!ended && leftNs > 0) {
                    try {
                        ended = process.waitFor(Math.min(leftNs, LOOK_NS), TimeUnit.NANOSECONDS);
                    } catch (InterruptedException e) {
                        if (interruptible) {
                            throw e;
                        }
                        interrupted = true;
                    }
                    read();
                    leftNs = deadlineNs - System.nanoTime();
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

        /** Takes what is there: what it has left running may keep the pipe open for ever, and continue writing. */
        private void read() throws IOException {
            int leftBytes = isCut() ? CUT_READ_BYTES : READ_BYTES;
            for (int bytes = available(); bytes > 0 && leftBytes > 0; bytes = available()) {
                int got = from.read(piece, 0, Math.min(bytes, piece.length));
                leftBytes -= got;
                output.write(piece, 0, share == null ? got : share.admit(got));
                if (output.size() > mostBytes && share == null) {
                    kill();
                    throw new IOException(
                            "'" + SecretWords.hidden(words) + "' prints more than " + mostBytes + " bytes");
                }
            }
        }

        private boolean isCut() {
            return share != null && share.isCut();
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

        /** Ends it and all its descendants at once, and does not wait for that: one may hang in the kernel. */
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
