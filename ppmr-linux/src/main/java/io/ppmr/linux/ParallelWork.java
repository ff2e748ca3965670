package io.ppmr.linux;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Does the same work for several things at the same time, where each mostly waits for programs or for the disk. */
public final class ParallelWork {
    /** The most threads of a call. */
    private static final int MOST_THREADS = 8;

    private ParallelWork() {}

    /** The work for one thing. It ends within a limit of its own. */
    @FunctionalInterface
    public interface ItemWork<T> {
        void run(T item) throws IOException;
    }

    /**
     * Does the work for all things, and returns when all of it ended, also if some failed. An interrupt does not end
     * the wait.
     *
     * @param thread the name of its threads, which inherit the caller's log context
     * @throws IOException the first failure
     */
    public static <T> void forEach(String thread, Collection<T> items, ItemWork<T> step) throws IOException {
        if (items.isEmpty()) {
            return;
        }
        ExecutorService threads = Executors.newFixedThreadPool(
                Math.min(items.size(), MOST_THREADS), task -> LogContext.thread(task, thread));
        try {
            List<Future<Void>> begun = new ArrayList<>();
            for (T item : items) {
                begun.add(threads.submit(() -> {
                    step.run(item);
                    return null;
                }));
            }
            List<IOException> failures = new ArrayList<>();
            for (Future<Void> one : begun) {
                UninterruptedWait.of(() -> failureOf(one)).ifPresent(failures::add);
            }
            if (!failures.isEmpty()) {
                throw failures.get(0);
            }
        } finally {
            threads.shutdown();
        }
    }

    private static Optional<IOException> failureOf(Future<Void> work) throws InterruptedException {
        try {
            work.get();
            return Optional.empty();
        } catch (ExecutionException e) {
            return Optional.of(
                    e.getCause() instanceof IOException cause
                            ? cause
                            : new IOException("a defect in work for several things: " + e.getCause(), e));
        }
    }
}
