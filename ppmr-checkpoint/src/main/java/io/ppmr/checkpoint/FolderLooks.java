package io.ppmr.checkpoint;

import io.ppmr.os.ProcFolder;
import io.ppmr.os.UninterruptedWait;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Looks at the threads or the descriptors of a process, of which a user decides how many there are. Those of a crowd
 * are looked at by several threads of this service at once: the processors are free while the job is stopped, and its
 * pause is shorter so. What is found is handed over in the kernel's order, by the thread that asks, some hundreds at a
 * time. For one call and one thread.
 */
final class FolderLooks<T> {
    /** A look that ends at the first that it finds reads no more than it needs. */
    private static final int FIRST = 8;

    /** As many are looked at without help. */
    private static final int FEW = 128;

    private static final int MANY = 1024;
    private static final int MOST_WORKERS = 4;

    /** A look at one of them. Any thread, several at once. */
    @FunctionalInterface
    interface FolderLook<T> {
        /**
         * Looks.
         *
         * @param folder in which they are
         * @param name its name in there, which is its number
         * @return what was found; empty if it is gone, or not wanted
         */
        Optional<T> at(ProcFolder folder, String name) throws IOException;
    }

    /** Receives what was found. */
    @FunctionalInterface
    interface LookSink<T> {
        /** Returns false if no more is wanted. */
        boolean take(T found) throws IOException, CheckpointException;
    }

    private final ProcFolder folder;
    private final FolderLook<T> look;
    private final LookSink<T> sink;
    private final List<String> waiting = new ArrayList<>();
    private final int workers =
            Math.max(2, Math.min(MOST_WORKERS, Runtime.getRuntime().availableProcessors()));
    private ExecutorService helpers;
    private int most = FIRST;
    private boolean over;

    private FolderLooks(ProcFolder folder, FolderLook<T> look, LookSink<T> sink) {
        this.folder = folder;
        this.look = look;
        this.sink = sink;
    }

    /**
     * Looks at each thread of a process.
     *
     * @throws java.nio.file.NoSuchFileException if the process has ended
     */
    static <T> void threads(int pid, FolderLook<T> look, LookSink<T> sink) throws IOException, CheckpointException {
        try (ProcFolder threads = ProcFolder.open("/proc/" + pid + "/task")) {
            each(threads, look, sink);
        }
    }

    /** Looks at each entry of a folder. */
    static <T> void each(ProcFolder folder, FolderLook<T> look, LookSink<T> sink)
            throws IOException, CheckpointException {
        FolderLooks<T> looks = new FolderLooks<>(folder, look, sink);
        try {
            folder.<CheckpointException>forEach(looks::add);
            looks.flush();
        } finally {
            looks.end();
        }
    }

    private boolean add(String name) throws IOException, CheckpointException {
        waiting.add(name);
        if (waiting.size() == most) {
            flush();
            most = most == FIRST ? FEW : MANY;
        }
        return !over;
    }

    private void flush() throws IOException, CheckpointException {
        List<String> names = List.copyOf(waiting);
        waiting.clear();
        if (names.size() <= FEW) {
            handOver(found(names));
            return;
        }
        if (helpers == null) {
            helpers = Executors.newFixedThreadPool(workers - 1, task -> {
                Thread thread = new Thread(task, "folder-looks");
                thread.setDaemon(true);
                return thread;
            });
        }
        int share = (names.size() + workers - 1) / workers;
        List<Future<List<T>>> parts = new ArrayList<>();
        for (int from = share; from < names.size(); from += share) {
            List<String> part = names.subList(from, Math.min(names.size(), from + share));
            parts.add(helpers.submit(() -> found(part)));
        }
        List<T> first = found(names.subList(0, share));
        handOver(first);
        for (Future<List<T>> part : parts) {
            handOver(result(part));
        }
    }

    private List<T> found(List<String> names) throws IOException {
        List<T> found = new ArrayList<>(names.size());
        for (String name : names) {
            look.at(folder, name).ifPresent(found::add);
        }
        return found;
    }

    private void handOver(List<T> found) throws IOException, CheckpointException {
        for (T one : found) {
            if (!over) {
                over = !sink.take(one);
            }
        }
    }

    /** Each look ends by itself, soon. */
    private List<T> result(Future<List<T>> part) throws IOException {
        return UninterruptedWait.of(() -> {
                    try {
                        return new Result<>(part.get(), null);
                    } catch (ExecutionException e) {
                        return new Result<T>(List.of(), e.getCause());
                    }
                })
                .orThrow();
    }

    private record Result<T>(List<T> found, Throwable failure) {
        List<T> orThrow() throws IOException {
            if (failure instanceof IOException cause) {
                throw cause;
            }
            if (failure instanceof RuntimeException cause) {
                throw cause;
            }
            if (failure != null) {
                throw new IllegalStateException(failure);
            }
            return found;
        }
    }

    /** A helper that is in the middle of a look needs the folder, which is closed next. */
    private void end() {
        if (helpers != null) {
            helpers.shutdown();
            UninterruptedWait.of(() -> helpers.awaitTermination(1, TimeUnit.MINUTES));
        }
    }
}
