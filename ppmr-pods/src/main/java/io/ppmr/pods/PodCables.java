package io.ppmr.pods;

import io.ppmr.linux.LogContext;
import io.ppmr.linux.UninterruptedWait;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A program that unplugs and plugs the cables of pods, and is started before they are held. To start a program for each
 * cable would lengthen the pause. It ends with its input, and so with this service. Safe for any thread.
 */
final class PodCables implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(PodCables.class);
    private static final String FAILED = "failed";

    private final OutputStream lines;
    private final Duration limit;
    private final AtomicLong numbers = new AtomicLong();
    private final Map<String, CompletableFuture<String>> requested = new ConcurrentHashMap<>();
    private volatile boolean isOver;

    /**
     * @param program {@code ppmr-pod-net cables}
     * @param limit the time limit of an answer
     */
    PodCables(Process program, Duration limit) {
        this.lines = program.getOutputStream();
        this.limit = limit;
        LogContext.thread(() -> read(program), "ppmr-pod-cables").start();
    }

    private void read(Process program) {
        try (BufferedReader answers =
                new BufferedReader(new InputStreamReader(program.getInputStream(), StandardCharsets.ISO_8859_1))) {
            for (String line = answers.readLine(); line != null; line = answers.readLine()) {
                String[] words = line.split(" ", 2);
                CompletableFuture<String> answer = requested.get(words[0]);
                if (answer != null && words.length == 2) {
                    answer.complete(words[1]);
                }
            }
        } catch (IOException e) {
            LOG.debug("the program for cables cannot be read", e);
        } finally {
            isOver = true;
            requested.values().forEach(answer -> answer.complete(FAILED));
        }
    }

    /** Has the program do what the words are for, and returns its answer. Throws if it did not do it. */
    String request(List<String> words) throws IOException {
        String number = Long.toString(numbers.incrementAndGet());
        CompletableFuture<String> answer = new CompletableFuture<>();
        requested.put(number, answer);
        try {
            send(number + " " + String.join(" ", words) + "\n");
            String word = isOver ? FAILED : UninterruptedWait.of(() -> within(answer));
            if (word.equals(FAILED)) {
                throw new IOException("the program for cables failed");
            }
            return word;
        } finally {
            requested.remove(number);
        }
    }

    /** It takes milliseconds. A program that does not answer has failed. */
    private String within(CompletableFuture<String> answer) throws InterruptedException {
        try {
            return answer.get(limit.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException | TimeoutException e) {
            LOG.warn("the program for cables does not answer within {}", limit, e);
            return FAILED;
        }
    }

    private synchronized void send(String line) throws IOException {
        lines.write(line.getBytes(StandardCharsets.ISO_8859_1));
        lines.flush();
    }

    /** Ends the program, after the last of its tasks. */
    @Override
    public synchronized void close() {
        try {
            lines.close();
        } catch (IOException e) {
            LOG.debug("the program for cables ended before", e);
        }
    }
}
