package io.ppmr.migration.source;

import io.ppmr.linux.LogContext;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs the blocking work of a migration: scans of processes, commands, files, connections. Its one thread runs one
 * piece after the other, so that pieces need no locks among each other. Any thread may call {@link #start}, which never
 * blocks.
 */
final class SerialWorker {
    private static final Logger LOG = LoggerFactory.getLogger(SerialWorker.class);
    private static final long ROUND_MS = 5;

    /** Work that is repeated while no piece waits, on the worker's thread. */
    interface RepeatedWork {
        /** Returns whether there is any work. */
        boolean isDue();

        /** Runs once. It must not throw. */
        void work();
    }

    private final BlockingQueue<FutureTask<?>> pieces = new LinkedBlockingQueue<>();
    private final RepeatedWork repeated;
    private final Runnable ended;
    private final Thread thread;
    private volatile boolean closed;

    /**
     * Begins to work. The thread has the log context of its maker.
     *
     * @param ended called on the worker's thread when a piece ends
     */
    SerialWorker(String name, RepeatedWork repeated, Runnable ended) {
        this.repeated = repeated;
        this.ended = ended;
        this.thread = LogContext.thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Runs a piece after those that wait already. */
    <T> Future<T> start(Callable<T> work) {
        FutureTask<T> piece = new FutureTask<>(work) {
            @Override
            protected void done() {
                ended.run();
            }
        };
        pieces.add(piece);
        return piece;
    }

    /** Ends when the waiting pieces are done. Returns whether it ended within this time. */
    boolean close(Duration limit) throws InterruptedException {
        closed = true;
        pieces.add(new FutureTask<>(() -> null));
        TimeUnit.NANOSECONDS.timedJoin(thread, limit.toNanos());
        return !thread.isAlive();
    }

    private void run() {
        while (!closed || !pieces.isEmpty()) {
            try {
                FutureTask<?> next = repeated.isDue() ? pieces.poll(ROUND_MS, TimeUnit.MILLISECONDS) : pieces.take();
                if (next != null) {
                    next.run();
                } else {
                    repeated.work();
                }
            } catch (RuntimeException | Error e) {
                // If the worker ended, all callers would wait for ever.
                LOG.error("a defect of this service; please report it: a migration's worker continues", e);
            } catch (InterruptedException e) {
                // The interrupted piece has reported it. The later pieces must run all the same.
                LOG.debug("a piece of work was interrupted", e);
            }
        }
    }
}
