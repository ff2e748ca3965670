package io.ppmr.os;

import java.util.HashMap;
import java.util.Map;

/**
 * The subject of a thread's log lines: a migration, a rank, a peer. The journal has these as fields of each entry,
 * systemd.journal-fields(7); plain lines do not show them. A thread has a field from when it opens a scope until it
 * closes that scope. No thread inherits one: {@link #thread} hands them to a thread that works for the calling one.
 * Immutable, any thread.
 */
public final class LogContext {
    /** The field with the ID of the migration. */
    public static final String MIGRATION = "PPMR_MIGRATION";

    /** The field with the number of the rank. */
    public static final String RANK = "PPMR_RANK";

    /** The field for the peer of the thread: HOST:PORT of the other service as this one knows it. */
    public static final String PEER = "PPMR_PEER";

    private static final LogContext NOTHING = new LogContext(Map.of());
    private static final ThreadLocal<LogContext> CURRENT = new ThreadLocal<>();

    private final Map<String, String> fields;

    private LogContext(Map<String, String> fields) {
        this.fields = fields;
    }

    /** Ends with the fields that the thread had before; closed by the thread that opened it. */
    public static final class Scope implements AutoCloseable {
        private final LogContext before;

        private Scope(LogContext before) {
            this.before = before;
        }

        @Override
        public void close() {
            if (before == NOTHING) {
                CURRENT.remove();
            } else {
                CURRENT.set(before);
            }
        }
    }

    /** Returns what the calling thread is about now. */
    public static LogContext ofThisThread() {
        LogContext current = CURRENT.get();
        return current == null ? NOTHING : current;
    }

    /** A rank of a migration, for threads that serve many. */
    public static LogContext of(String migrationId, int rank) {
        return new LogContext(Map.of(MIGRATION, migrationId, RANK, Integer.toString(rank)));
    }

    /** From now on the calling thread is about this and nothing else, until the scope is closed. */
    public Scope open() {
        Scope scope = new Scope(ofThisThread());
        CURRENT.set(this);
        return scope;
    }

    /** Logs about this and nothing else, on the calling thread, which is then about what it was before. */
    public void logging(Runnable logs) {
        try (Scope scope = open()) {
            logs.run();
        }
    }

    /** From now on the calling thread is about this migration, too. */
    public static Scope migration(String id) {
        return with(MIGRATION, id);
    }

    /** From now on the calling thread is about this rank, too. */
    public static Scope rank(int rank) {
        return with(RANK, Integer.toString(rank));
    }

    /** From now on the calling thread is about this peer, too. */
    public static Scope peer(String address) {
        return with(PEER, address);
    }

    private static Scope with(String field, String value) {
        Map<String, String> fields = new HashMap<>(ofThisThread().fields);
        fields.put(field, value);
        return new LogContext(Map.copyOf(fields)).open();
    }

    /** A daemon thread, not started yet, that is about what the calling thread is about now. */
    public static Thread thread(Runnable task, String name) {
        LogContext about = ofThisThread();
        Thread thread = new Thread(
                () -> {
                    try (Scope scope = about.open()) {
                        task.run();
                    }
                },
                name);
        thread.setDaemon(true);
        return thread;
    }

    /** By their names in the journal. */
    public Map<String, String> fields() {
        return fields;
    }
}
