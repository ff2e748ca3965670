package io.ppmr.checkpoint;

import io.ppmr.checkpoint.CommandStarter.Started;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A {@code ppmr-launch --serve}, which starts commands for this JVM and tells how they end. The JDK takes a further
 * program and a thread for each start, and closes what it has open one by one; for a job of a thousand ranks that was a
 * third of all processor time. It is started with the first command, ends with this JVM, and the commands outlive it.
 * For any thread.
 */
final class LaunchServer {
    private static final Logger LOG = LoggerFactory.getLogger(LaunchServer.class);

    private static final long START_LIMIT_NS = TimeUnit.SECONDS.toNanos(60);
    private static final int ANSWER_BYTES = 3 * Integer.BYTES;

    /** Of a command whose end nobody has seen. */
    private static final int UNKNOWN_STATUS = -1;

    private static final Map<String, LaunchServer> ALL = new HashMap<>();

    private final Process process;
    private final Queue<CompletableFuture<Started>> asked = new ArrayDeque<>();
    private final Map<Integer, CompletableFuture<Integer>> running = new HashMap<>();
    private boolean over;

    private LaunchServer(String program) throws IOException {
        process = new ProcessBuilder(program, "--serve")
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        Thread reader = new Thread(this::read, "ppmr-launched");
        reader.setDaemon(true);
        reader.start();
    }

    /** Gives the one of a program, of which there is one as long as it lives. */
    static LaunchServer of(String program) throws IOException {
        synchronized (ALL) {
            LaunchServer server = ALL.get(program);
            if (server == null || server.isOver()) {
                server = new LaunchServer(program);
                ALL.put(program, server);
            }
            return server;
        }
    }

    private synchronized boolean isOver() {
        return over || !process.isAlive();
    }

    /**
     * Starts a command. An interrupt does not stop that, since it would be unknown whether the command runs; the flag
     * stays set.
     *
     * @param command begins with the program of this server
     */
    Started start(List<String> command, Path workDirectory, Path output) throws IOException {
        ByteArrayOutputStream words = new ByteArrayOutputStream();
        add(words, workDirectory.toString());
        add(words, output.toString());
        for (String word : command) {
            add(words, word);
        }
        byte[] request = ByteBuffer.allocate(Integer.BYTES + words.size())
                .order(ByteOrder.nativeOrder())
                .putInt(words.size())
                .put(words.toByteArray())
                .array();
        CompletableFuture<Started> answer = new CompletableFuture<>();
        synchronized (this) {
            if (over) {
                throw new IOException("ppmr-launch has just ended");
            }
            asked.add(answer);
            // It never waits: those who start commands are few, and each waits for its answer.
            process.getOutputStream().write(request);
            process.getOutputStream().flush();
        }
        return await(answer);
    }

    private static void add(ByteArrayOutputStream words, String word) throws IOException {
        if (word.indexOf('\0') >= 0) {
            throw new IOException("a word of a command has a character 0 in it: " + word.replace('\0', '?'));
        }
        words.write(word.getBytes(Charset.defaultCharset()));
        words.write(0);
    }

    private static Started await(CompletableFuture<Started> answer) throws IOException {
        long deadlineNs = System.nanoTime() + START_LIMIT_NS;
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return answer.get(deadlineNs - System.nanoTime(), TimeUnit.NANOSECONDS);
                } catch (InterruptedException e) {
                    interrupted = true;
                } catch (ExecutionException e) {
                    throw new IOException(e.getCause().getMessage(), e.getCause());
                } catch (TimeoutException e) {
                    IOException late = new IOException("ppmr-launch has not answered within 60 s", e);
                    if (answer.completeExceptionally(late)) {
                        throw late;
                    }
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void read() {
        try (InputStream from = new BufferedInputStream(process.getInputStream())) {
            for (byte[] answer = from.readNBytes(ANSWER_BYTES);
                    answer.length == ANSWER_BYTES;
                    answer = from.readNBytes(ANSWER_BYTES)) {
                ByteBuffer numbers = ByteBuffer.wrap(answer).order(ByteOrder.nativeOrder());
                take(numbers.getInt(), numbers.getInt(), numbers.getInt());
            }
        } catch (IOException e) {
            throw new UncheckedIOException("the answers of ppmr-launch cannot be read", e);
        } finally {
            lose();
        }
    }

    /** The order is that of {@code enum answer} in ppmr-launch. */
    private void take(int what, int number, int status) {
        switch (what) {
            case 0 -> started(number);
            case 1 ->
                next().completeExceptionally(new IOException(
                        "its working directory or output file cannot be opened (error " + number + " of errno(3))"));
            case 2 -> {
                CompletableFuture<Integer> exit;
                synchronized (this) {
                    exit = running.remove(number);
                }
                exit.complete(status);
            }
            default -> throw new IllegalStateException("ppmr-launch answers " + what);
        }
    }

    private synchronized CompletableFuture<Started> next() {
        return asked.remove();
    }

    private void started(int pid) {
        CompletableFuture<Integer> exit = new CompletableFuture<>();
        CompletableFuture<Started> answer;
        synchronized (this) {
            answer = asked.remove();
            running.put(pid, exit);
        }
        if (!answer.complete(new Started(exit, pid))) {
            LOG.warn("PID {} was started when nobody waited for it any more, and is killed", pid);
            ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly);
        }
    }

    /** Its commands may run on: whoever asks is told that they have ended when they have. */
    private void lose() {
        Map<Integer, CompletableFuture<Integer>> left;
        List<CompletableFuture<Started>> unanswered;
        synchronized (this) {
            over = true;
            left = Map.copyOf(running);
            unanswered = List.copyOf(asked);
        }
        process.destroyForcibly();
        unanswered.forEach(answer -> answer.completeExceptionally(new IOException("ppmr-launch has ended meanwhile")));
        if (!left.isEmpty()) {
            LOG.error(
                    "ppmr-launch was ended, and how PID {} end will not be known: they count as failed", left.keySet());
        }
        left.forEach((pid, exit) -> {
            CompletableFuture<?> end = ProcessHandle.of(pid)
                    .<CompletableFuture<?>>map(ProcessHandle::onExit)
                    .orElse(CompletableFuture.completedFuture(null));
            var unused = end.thenRun(() -> exit.complete(UNKNOWN_STATUS));
        });
    }
}
