package io.ppmr.cluster.job;

import io.ppmr.linux.LogContext;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Accesses to directories that may not answer, such as those of a remote filesystem whose server is gone. Each runs on
 * a thread of its own, one at a time for a directory, so a directory without an answer delays nothing else for long.
 * Safe for any thread.
 */
final class DirectoryCalls {
    private final Map<Path, Place> places = new ConcurrentHashMap<>();
    private final String thread;

    /** A directory. */
    private static final class Place {
        private final Semaphore free = new Semaphore(1);
        /** The last access whose caller no longer waits for it. */
        private volatile CompletableFuture<?> late = CompletableFuture.completedFuture(null);
    }

    /** @param thread the name of the threads */
    DirectoryCalls(String thread) {
        this.thread = thread;
    }

    /** An access to a directory. */
    @FunctionalInterface
    interface DirectoryAccess<T> {
        T run() throws IOException;
    }

    /** Waits for the result of an access. Throws, with the remedy, if there is none within the limit. */
    <T> T call(Path directory, Duration limit, DirectoryAccess<T> access) throws IOException, InterruptedException {
        long endNs = System.nanoTime() + limit.toNanos();
        Place place = placeOf(directory);
        if (!place.late.isDone() || !place.free.tryAcquire(limit.toNanos(), TimeUnit.NANOSECONDS)) {
            throw noAnswer(directory, limit);
        }
        CompletableFuture<T> result = new CompletableFuture<>();
        start(place, () -> complete(result, access));
        try {
            return result.get(Math.max(0, endNs - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            // The next caller does not wait for it, too.
            place.late = result;
            throw (IOException) noAnswer(directory, limit).initCause(e);
        } catch (ExecutionException e) {
            throw new IOException(e.getCause().getMessage(), e.getCause());
        }
    }

    /** Starts an access whose failure it handles itself. Returns false if another one runs. */
    boolean start(Path directory, Runnable access) {
        Place place = placeOf(directory);
        if (!place.free.tryAcquire()) {
            return false;
        }
        start(place, access);
        return true;
    }

    private Place placeOf(Path directory) {
        return places.computeIfAbsent(directory, unused -> new Place());
    }

    private void start(Place place, Runnable access) {
        LogContext.thread(
                        () -> {
                            try {
                                access.run();
                            } finally {
                                place.free.release();
                            }
                        },
                        thread)
                .start();
    }

    private static <T> void complete(CompletableFuture<T> result, DirectoryAccess<T> access) {
        try {
            result.complete(access.run());
        } catch (IOException | RuntimeException e) {
            result.completeExceptionally(e);
        }
    }

    private static IOException noAnswer(Path directory, Duration limit) {
        return new IOException(directory + " does not answer within " + limit.toMillis()
                + " ms. Remedy: check the server of its filesystem, and the mount");
    }
}
