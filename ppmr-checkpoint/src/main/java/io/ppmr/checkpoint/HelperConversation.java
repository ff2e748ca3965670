package io.ppmr.checkpoint;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Questions to a small program of ours that works with files as another user, and its answers, each within a time: it
 * is killed when it does not answer, as a filesystem's server may hang. Owned by one thread, which closes it.
 */
final class HelperConversation implements Closeable {
    private static final Logger LOG = LoggerFactory.getLogger(HelperConversation.class);
    private static final long SLICE_MS = 20;
    private static final int BUFFER_BYTES = 1 << 16;

    private final Process process;
    private final OutputStream questions;
    private final InputStream answers;
    private final String failing;
    private final int longestLine;
    private final BooleanSupplier over;
    private boolean broken;

    /**
     * @param process that answers
     * @param failing what is said of a failure, before the cause
     * @param longestLine how many characters an answer's line may have
     * @param over asked again and again: nothing more is wanted
     */
    HelperConversation(Process process, String failing, int longestLine, BooleanSupplier over) {
        this.process = process;
        this.questions = process.getOutputStream();
        this.answers = new BufferedInputStream(process.getInputStream(), BUFFER_BYTES);
        this.failing = failing;
        this.longestLine = longestLine;
        this.over = over;
    }

    /** Writes a question, of characters from 0 to 255, on the thread that {@link #within} has made. */
    void ask(String question) throws IOException {
        questions.write(question.getBytes(StandardCharsets.ISO_8859_1));
        questions.flush();
    }

    /** Writes bytes, which {@link #ask} or {@link #flush} sends. */
    void write(byte[] bytes, int length) throws IOException {
        questions.write(bytes, 0, length);
    }

    void flush() throws IOException {
        questions.flush();
    }

    /** Reads a line of an answer. */
    String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int next = answers.read(); next != '\n'; next = answers.read()) {
            if (next < 0) {
                throw new EOFException("it has ended");
            }
            if (line.length() == longestLine) {
                throw noAnswer();
            }
            line.append((char) next);
        }
        return line.toString();
    }

    /** Reads an answer of the given length to the beginning of an array. */
    byte[] exactly(byte[] into, int bytes) throws IOException {
        if (answers.readNBytes(into, 0, bytes) < bytes) {
            throw new EOFException("it has ended");
        }
        return into;
    }

    static IOException noAnswer() {
        return new IOException("it says something that is no answer");
    }

    /**
     * Has another thread ask, which may hang with the process in the kernel.
     *
     * @param about tells what has no answer yet
     */
    <T> T within(Duration most, Supplier<String> about, Callable<T> asks) throws CheckpointException {
        if (broken) {
            throw failure("it has failed before", null);
        }
        FutureTask<T> asking = new FutureTask<>(asks);
        Thread thread = new Thread(asking, "file-look");
        thread.setDaemon(true);
        thread.start();
        long deadlineNs = System.nanoTime() + most.toNanos();
        boolean answered = false;
        try {
            while (System.nanoTime() - deadlineNs < 0 && !over.getAsBoolean()) {
                try {
                    T answer = asking.get(SLICE_MS, TimeUnit.MILLISECONDS);
                    answered = true;
                    return answer;
                } catch (TimeoutException e) {
                    LOG.trace("no answer yet", e);
                }
            }
            throw over.getAsBoolean()
                    ? new CheckpointException("the look at the job's files was called off")
                    : failure("no answer about " + about.get() + " for " + most.toSeconds() + " s", null);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw failure("the service ends", e);
        } catch (ExecutionException e) {
            throw failure(String.valueOf(e.getCause().getMessage()), e.getCause());
        } finally {
            if (!answered) {
                broken = true;
                process.destroyForcibly();
            }
        }
    }

    private CheckpointException failure(String why, Throwable cause) {
        return new CheckpointException(
                failing + ": " + why + ". Remedy: see whether a filesystem's server does not answer on this node",
                cause);
    }

    /** Kills the process, and waits until it is gone; false if it is not within the time. Any thread. */
    boolean end(Duration most) throws InterruptedException {
        process.destroyForcibly();
        return process.waitFor(most.toMillis(), TimeUnit.MILLISECONDS);
    }

    int pid() {
        return (int) process.pid();
    }

    /** Kills the process. */
    @Override
    public void close() {
        process.destroyForcibly();
    }
}
