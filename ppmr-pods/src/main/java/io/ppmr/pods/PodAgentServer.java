package io.ppmr.pods;

import io.ppmr.linux.LogContext;
import io.ppmr.linux.PrintableText;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletionService;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Starts the commands that a launcher in a pod requests, outside of the pod, until each host has one. One thread
 * owns it; commands are started on workers, each within the deadline of its start.
 */
final class PodAgentServer implements AutoCloseable {
    /** The most commands that are started at once. */
    private static final int AT_ONCE = 8;

    private static final Duration SIGN = Duration.ofSeconds(1);
    private static final Duration LOOK = Duration.ofMillis(100);
    private static final int WRONG_WORDS = 2;

    /**
     * A command for a host, as a launcher passes it to ssh.
     *
     * @param host the name of the host
     * @param command the command, for a shell
     */
    record HostCommand(String host, String command) {}

    /** Starts the command of a host in that host's pod. */
    @FunctionalInterface
    interface Starter {
        /** Returns the exit code of the start. */
        int start(HostCommand command) throws IOException, RequestException, InterruptedException;
    }

    private record Started(String name, String host, int exitCode, String failure) {}

    private final PodAgentBox box;
    private final Starter starter;
    private final PrintWriter out;
    private final PrintWriter err;
    private final ExecutorService workers;
    private final CompletionService<Started> starts;
    private int running;

    /**
     * Makes a server.
     *
     * @param box the pod's directory, which its caller closes
     * @param out receives a line for each command that was started
     * @param err receives a line for each that was not
     */
    PodAgentServer(PodAgentBox box, Starter starter, PrintWriter out, PrintWriter err) {
        this.box = box;
        this.starter = starter;
        this.out = out;
        this.err = err;
        this.workers = Executors.newFixedThreadPool(AT_ONCE, task -> LogContext.thread(task, "ppmr-pod-agent"));
        this.starts = new ExecutorCompletionService<>(workers);
    }

    /**
     * Serves until a command was started for each of the hosts.
     *
     * @param hosts the hosts
     * @param silence for how long no words may come
     * @throws IOException if the pod ended before, or no words came for that time
     */
    void serve(Set<String> hosts, Duration silence) throws IOException, InterruptedException {
        Set<String> left = new TreeSet<>(hosts);
        long wordsNs = System.nanoTime();
        long signNs = wordsNs - SIGN.toNanos();
        while (!left.isEmpty() || running > 0) {
            box.requireAlive();
            if (System.nanoTime() - signNs >= SIGN.toNanos()) {
                signNs = System.nanoTime();
                box.showAlive();
            }
            if (begin()) {
                wordsNs = System.nanoTime();
            }
            Optional<Started> ended = next();
            if (ended.isPresent()) {
                end(ended.get(), left);
            } else if (running == 0 && System.nanoTime() - wordsNs >= silence.toNanos()) {
                throw new IOException("the launcher in pod " + box.pod() + " asked for nothing for "
                        + silence.toSeconds() + " s, and not yet for " + String.join(", ", left)
                        + ". Remedy: start it with pod-agent.sh as its agent; or, if it needs no more hosts, remove"
                        + " their lines");
            }
        }
    }

    /** Begins to start what was asked for. Returns true if there was something. */
    private boolean begin() throws IOException {
        boolean isAny = false;
        for (String name : box.waiting()) {
            if (running == AT_ONCE) {
                break;
            }
            HostCommand command;
            try {
                Optional<List<String>> taken = box.take(name);
                if (taken.isEmpty()) {
                    continue;
                }
                command = PodAgentCommand.hostCommand(taken.get())
                        .orElseThrow(() -> new IOException("the words of a launcher have no host or no command"));
            } catch (IOException e) {
                box.answer(name, WRONG_WORDS);
                err.println("ppmr: pod " + box.pod() + ": " + PrintableText.line(String.valueOf(e.getMessage())));
                err.flush();
                continue;
            }
            isAny = true;
            running++;
            Future<Started> unused = starts.submit(() -> start(name, command));
        }
        return isAny;
    }

    private Started start(String name, HostCommand command) throws InterruptedException {
        try {
            return new Started(name, command.host(), starter.start(command), "");
        } catch (IOException | RequestException | RuntimeException e) {
            return new Started(name, command.host(), 1, String.valueOf(e.getMessage()));
        }
    }

    /** Waits a moment for the end of a start, or for words. */
    private Optional<Started> next() throws IOException, InterruptedException {
        Future<Started> ended = starts.poll(LOOK.toMillis(), TimeUnit.MILLISECONDS);
        if (ended == null) {
            return Optional.empty();
        }
        running--;
        try {
            return Optional.of(ended.get());
        } catch (ExecutionException e) {
            throw new IOException("a command cannot be started: " + e.getCause(), e);
        }
    }

    private void end(Started started, Set<String> left) throws IOException {
        box.answer(started.name(), started.exitCode());
        String host = PrintableText.line(started.host());
        if (started.exitCode() == 0) {
            left.remove(started.host());
            out.println("host " + host + ": its command runs in its pod");
        } else {
            err.println("ppmr: host " + host + ": "
                    + (started.failure().isEmpty()
                            ? "its command was not started, exit code " + started.exitCode()
                            : PrintableText.line(started.failure())));
        }
        out.flush();
        err.flush();
    }

    @Override
    public void close() {
        workers.shutdownNow();
    }
}
