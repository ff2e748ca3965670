package io.ppmr.migration.source;

import io.ppmr.os.LogContext;
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
 * Does the work of a migration that may block: looks at processes, commands, files, connections. It has one thread,
 * which does one piece after the other, so that pieces need no locks among themselves. {@link #start} is for any
 * thread, and never waits.
 */
final class SerialWorker {
    private static final Logger LOG = LoggerFactory.getLogger(SerialWorker.class);
    private static final long ROUND_MS = 5;

    /** Work that is done again and again while no piece waits; on the worker's thread. */
    interface RepeatedWork {
        /** Returns whether there is anything to be looked at. */
        boolean areDue();

        /** Looks once. It must not throw. */
        void work();
    }

    private final BlockingQueue<FutureTask<?>> pieces = new LinkedBlockingQueue<>();
    private final RepeatedWork repeated;
    private final Runnable ended;
    private final Thread thread;
    private volatile boolean closed;

    /**
     * Begins to work. The thread logs about what its maker's does.
     *
     * @param ended called on the worker's thread when a piece has ended
     */
    SerialWorker(String name, RepeatedWork repeated, Runnable ended) {
        this.repeated = repeated;
        this.ended = ended;
        this.thread = LogContext.thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Has a piece done after those that wait already. */
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

    /** Ends when the pieces that wait are done; gives whether it has ended within this time. */
    boolean close(Duration limit) throws InterruptedException {
        closed = true;
        pieces.add(new FutureTask<>(() -> null));
        TimeUnit.NANOSECONDS.timedJoin(thread, limit.toNanos());
        return !thread.isAlive();
    }

    private void run() {
        while (!closed || !pieces.isEmpty()) {
            try {
                FutureTask<?> next = repeated.areDue() ? pieces.poll(ROUND_MS, TimeUnit.MILLISECONDS) : pieces.take();
                if (next != null) {
                    next.run();
                } else {
                    repeated.work();
                }
            } catch (RuntimeException | Error e) {
                // A worker that ended would leave all that waits for it waiting for ever.
                LOG.error("a defect of this service; please report it: a migration's worker continues", e);
            } catch (InterruptedException e) {
                // A piece was interrupted, and has said so; those behind it are to be done all the same.
                LOG.debug("a piece of work was interrupted", e);
            }
        }
    }
}
