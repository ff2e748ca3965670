package io.ppmr.migration.source;

import io.ppmr.linux.LogContext;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;

/** Work beside a migration, on its own thread, which does not wait for the migration's other work. */
final class SideTask {
    private SideTask() {}

    /**
     * Begins to work.
     *
     * @param ended called on that thread when the work ends
     */
    static <T> Future<T> start(String name, Callable<T> work, Runnable ended) {
        FutureTask<T> task = new FutureTask<>(work) {
            @Override
            protected void done() {
                ended.run();
            }
        };
        Thread thread = LogContext.thread(task, name);
        thread.setDaemon(true);
        thread.start();
        return task;
    }
}
