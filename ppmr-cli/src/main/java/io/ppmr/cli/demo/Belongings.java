package io.ppmr.cli.demo;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * What has been made and must go again: closed in reverse order, once, also by a shutdown hook when the JVM is told to
 * end. Safe for any thread.
 */
final class Belongings implements AutoCloseable {
    /** Told of what could not be closed. */
    interface Complaints {
        void accept(String text);
    }

    private final Complaints complaints;
    private final Deque<AutoCloseable> all = new ArrayDeque<>();
    private boolean closed;
    private volatile boolean early;

    Belongings(Complaints complaints) {
        this.complaints = complaints;
    }

    /** Takes something over; throws, and closes it, if all is closed already. */
    synchronized <T extends AutoCloseable> T add(T one) {
        all.push(one);
        if (closed) {
            close();
            throw new IllegalStateException("told to end");
        }
        return one;
    }

    /** Closes one of them earlier than the rest. */
    synchronized void close(AutoCloseable one) throws Exception {
        if (all.remove(one)) {
            one.close();
        }
    }

    /** Closes all while somebody still works with them. */
    void closeEarly() {
        early = true;
        close();
    }

    /** Whether that has happened, so that failures are no news. */
    boolean closedEarly() {
        return early;
    }

    @Override
    public synchronized void close() {
        closed = true;
        while (!all.isEmpty()) {
            try {
                all.pop().close();
            } catch (Exception e) {
                if (e instanceof InterruptedException) {
                    Thread.currentThread().interrupt();
                }
                complaints.accept("left behind: " + e.getMessage());
            }
        }
    }
}
