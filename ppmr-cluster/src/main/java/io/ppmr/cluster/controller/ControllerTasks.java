package io.ppmr.cluster.controller;

import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/** The tasks of a controller's thread, which takes them in turn. Any thread adds them. */
final class ControllerTasks {
    private static final Duration CALL_LIMIT = Duration.ofSeconds(2);

    private final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();

    /** Adds a task, and returns at once. */
    void add(Runnable task) {
        tasks.add(task);
    }

    /** Has the controller's thread do something, and waits for its result. For any other thread. */
    <T> T call(Supplier<T> work) throws IOException, InterruptedException {
        CompletableFuture<T> result = new CompletableFuture<>();
        tasks.add(() -> {
            try {
                result.complete(work.get());
            } catch (RuntimeException e) {
                result.completeExceptionally(e);
            }
        });
        try {
            return result.get(CALL_LIMIT.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new IOException("the controller is busy: try again", e);
        } catch (ExecutionException e) {
            throw new IOException("a defect in the controller: " + e.getCause(), e);
        }
    }

    /** Takes the next task, or returns null if none comes in time. The controller's thread calls it. */
    Runnable poll(long waitNs) throws InterruptedException {
        return tasks.poll(waitNs, TimeUnit.NANOSECONDS);
    }
}
