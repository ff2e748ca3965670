package io.ppmr.pods;

import io.ppmr.daemon.service.ProcessSignals;
import io.ppmr.linux.LogContext;
import io.ppmr.migration.RequestException;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Keeps a pod of this node and waits for its end. It ends the pod when this process gets SIGTERM, SIGINT or SIGHUP, or
 * when its standard input is closed. So a pod does not outlive the command that made it. Create it before the pod. It
 * is for one thread.
 */
final class PodWatch {
    /** The time limit for ending a pod, including a move of it. */
    private static final Duration END_LIMIT = Duration.ofSeconds(60);

    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(200);

    private final Path socket;
    private final PrintWriter out;
    private final CompletableFuture<Void> endRequested = new CompletableFuture<>();

    PodWatch(Path socket, InputStream input, PrintWriter out) {
        this.socket = socket;
        this.out = out;
        for (String signal : new String[] {"TERM", "INT", "HUP"}) {
            ProcessSignals.on(signal, () -> endRequested.complete(null));
        }
        LogContext.thread(() -> awaitEnd(input), "ppmr-input").start();
    }

    private void awaitEnd(InputStream input) {
        try {
            while (input.read() >= 0) {
                // The content is ignored.
            }
        } catch (IOException e) {
            // The client is gone. This counts as the end of the input.
            out.println("ppmr: the standard input failed: " + e.getMessage());
        }
        endRequested.complete(null);
    }

    /** Waits until a pod arrives. Throws after the time limit. */
    PodStatus find(String name, Duration within) throws IOException, RequestException {
        long deadlineNs = System.nanoTime() + within.toNanos();
        while (true) {
            try (PodClient client = new PodClient(socket)) {
                return client.showPod(name);
            } catch (RequestException e) {
                if (System.nanoTime() - deadlineNs >= 0) {
                    throw e;
                }
            }
            LockSupport.parkNanos(LOOK_NS);
        }
    }

    /** Prints the pod's address for programs, and returns when the pod is gone. */
    void attach(PodStatus pod) throws IOException, RequestException {
        out.println("ppmr-pod " + pod.name() + " at " + pod.address() + "/" + pod.prefixBits());
        out.flush();
        CompletableFuture<ProcessHandle> end = ProcessHandle.of(pod.init())
                .map(ProcessHandle::onExit)
                .orElseGet(() -> CompletableFuture.completedFuture(null));
        CompletableFuture.anyOf(end, endRequested).join();
        if (!endRequested.isDone() || !stopped(pod)) {
            out.println("ppmr-pod " + pod.name() + " gone");
            out.flush();
        }
    }

    /** Ends the pod after a migration of it. Returns false if the pod is gone. */
    private boolean stopped(PodStatus pod) throws IOException, RequestException {
        long deadlineNs = System.nanoTime() + END_LIMIT.toNanos();
        while (true) {
            try {
                Optional<PodStatus> now = lookAgain(pod);
                if (now.isEmpty()) {
                    return false;
                }
                if (!now.get().isMoving()) {
                    // A connection carries one request.
                    try (PodClient client = new PodClient(socket)) {
                        client.stopPod(pod.name());
                    }
                    return true;
                }
            } catch (IOException | RequestException e) {
                // The service may be restarting, or a migration may have just begun.
                if (System.nanoTime() - deadlineNs >= 0) {
                    throw e;
                }
            }
            if (System.nanoTime() - deadlineNs >= 0) {
                throw new IOException("pod " + pod.name() + " is being moved for " + END_LIMIT.toSeconds()
                        + " s already, and cannot be ended during the move. Remedy: ppmr pod stop, when it is over");
            }
            LockSupport.parkNanos(LOOK_NS);
        }
    }

    private Optional<PodStatus> lookAgain(PodStatus pod) throws IOException, RequestException {
        try (PodClient client = new PodClient(socket)) {
            return client.pods().stream()
                    .filter(one -> one.name().equals(pod.name()) && one.init() == pod.init())
                    .findFirst();
        }
    }
}
