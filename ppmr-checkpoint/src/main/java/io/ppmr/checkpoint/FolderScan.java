package io.ppmr.checkpoint;

import io.ppmr.linux.ProcFolder;
import io.ppmr.linux.UninterruptedWait;
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
 * Inspects the threads or descriptors of a process, whose number its user decides. If there are many, several threads
 * of this service inspect them at once. The processors are free while the job is stopped, and its pause gets shorter.
 * The results are passed on in the kernel's order, by the calling thread, some hundreds at a time. For one call and one
 * thread.
 */
final class FolderScan<T> {
    /** Size of the first batch. A search that ends at the first result reads only few entries. */
    private static final int FIRST = 8;

    /** Maximum number of entries that are inspected without helpers. */
    private static final int FEW = 128;

    private static final int MANY = 1024;
    private static final int MOST_WORKERS = 4;

    /** Inspects one entry. Any thread, several at once. */
    @FunctionalInterface
    interface EntryInspector<T> {
        /**
         * Inspects an entry.
         *
         * @param folder the folder of the entries
         * @param name name of the entry, which is its number
         * @return the result, or empty if the entry is gone, or not needed
         */
        Optional<T> at(ProcFolder folder, String name) throws IOException;
    }

    /** Receives the results. */
    @FunctionalInterface
    interface ResultSink<T> {
        /** Receives a result. Returns false if no more are needed. */
        boolean take(T found) throws IOException, CheckpointException;
    }

    private final ProcFolder folder;
    private final EntryInspector<T> look;
    private final ResultSink<T> sink;
    private final List<String> waiting = new ArrayList<>();
    private final int workers =
            Math.max(2, Math.min(MOST_WORKERS, Runtime.getRuntime().availableProcessors()));
    private ExecutorService helpers;
    private int most = FIRST;
    private boolean over;

    private FolderScan(ProcFolder folder, EntryInspector<T> look, ResultSink<T> sink) {
        this.folder = folder;
        this.look = look;
        this.sink = sink;
    }

    /**
     * Inspects each thread of a process.
     *
     * @throws java.nio.file.NoSuchFileException if the process ended
     */
    static <T> void threads(int pid, EntryInspector<T> look, ResultSink<T> sink)
            throws IOException, CheckpointException {
        try (ProcFolder threads = ProcFolder.open("/proc/" + pid + "/task")) {
            each(threads, look, sink);
        }
    }

    /** Inspects each entry of a folder. */
    static <T> void each(ProcFolder folder, EntryInspector<T> look, ResultSink<T> sink)
            throws IOException, CheckpointException {
        FolderScan<T> looks = new FolderScan<>(folder, look, sink);
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

    /** Returns the result of a part. Waits without a limit, because each inspection ends soon. */
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

    /** Waits for helpers, which still need the folder. The folder is closed next. */
    private void end() {
        if (helpers != null) {
            helpers.shutdown();
            UninterruptedWait.of(() -> helpers.awaitTermination(1, TimeUnit.MINUTES));
        }
    }
}
