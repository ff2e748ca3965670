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
 * Queries to a small helper program that accesses files as another user, and its answers, each with a time limit. The
 * program is killed when it does not answer, because a filesystem's server may hang. Owned by one thread, which closes
 * it.
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
     * @param process the helper process
     *
     * @param failing description of a failure, before the cause
     * @param longestLine maximum length of an answer's line, in characters
     * @param over checked repeatedly; returns true if no more answers are needed
     */
    HelperConversation(Process process, String failing, int longestLine, BooleanSupplier over) {
        this.process = process;
        this.questions = process.getOutputStream();
        this.answers = new BufferedInputStream(process.getInputStream(), BUFFER_BYTES);
        this.failing = failing;
        this.longestLine = longestLine;
        this.over = over;
    }

    /** Sends a query of characters from 0 to 255, on the thread of {@link #runWithin}. */
    void send(String question) throws IOException {
        questions.write(question.getBytes(StandardCharsets.ISO_8859_1));
        questions.flush();
    }

    /** Writes bytes, which {@link #send} or {@link #flush} sends. */
    void write(byte[] bytes, int length) throws IOException {
        questions.write(bytes, 0, length);
    }

    void flush() throws IOException {
        questions.flush();
    }

    /** Reads a line of an answer. */
    String readLine() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int next = answers.read(); next != '\n'; next = answers.read()) {
            if (next < 0) {
                throw new EOFException("it ended");
            }
            if (line.length() == longestLine) {
                throw noAnswer();
            }
            line.append((char) next);
        }
        return line.toString();
    }

    /** Reads an answer of the given length to the beginning of an array. */
    byte[] readExactly(byte[] into, int bytes) throws IOException {
        if (answers.readNBytes(into, 0, bytes) < bytes) {
            throw new EOFException("it ended");
        }
        return into;
    }

    static IOException noAnswer() {
        return new IOException("its answer is invalid");
    }

    /**
     * Runs a query on another thread, because it may hang with the process in the kernel.
     *
     * @param about names the query without an answer
     */
    <T> T runWithin(Duration most, Supplier<String> about, Callable<T> asks) throws CheckpointException {
        if (broken) {
            throw failure("it failed before", null);
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
                    ? new CheckpointException("the check of the job's files was called off")
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
                failing + ": " + why + ". Remedy: check whether a filesystem's server does not answer on this node",
                cause);
    }

    /** Kills the process, and waits until it is gone. Returns false if it is not gone in time. Any thread. */
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
