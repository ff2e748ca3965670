package io.ppmr.linux;

import java.util.HashMap;
import java.util.Map;

/**
 * The subject of a thread's log lines: a migration, a rank, a peer. The journal stores these as fields of each entry,
 * systemd.journal-fields(7). Plain lines do not show them. A thread has a field from the opening of a scope until the
 * scope is closed. Threads do not inherit fields. {@link #thread} passes them to a new thread that works for the
 * calling one. Immutable, any thread.
 */
public final class LogContext {
    /** The field with the ID of the migration. */
    public static final String MIGRATION = "PPMR_MIGRATION";

    /** The field with the number of the rank. */
    public static final String RANK = "PPMR_RANK";

    /** The field for the thread's peer: HOST:PORT of the other service, as this one addresses it. */
    public static final String PEER = "PPMR_PEER";

    private static final LogContext NOTHING = new LogContext(Map.of());
    private static final ThreadLocal<LogContext> CURRENT = new ThreadLocal<>();

    private final Map<String, String> fields;

    private LogContext(Map<String, String> fields) {
        this.fields = fields;
    }

    /** Restores the previous fields when it is closed, by the thread that opened it. */
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

    /** Returns the fields of the calling thread. */
    public static LogContext current() {
        LogContext current = CURRENT.get();
        return current == null ? NOTHING : current;
    }

    /** Returns the fields of a rank of a migration, for threads that serve many ranks. */
    public static LogContext of(String migrationId, int rank) {
        return new LogContext(Map.of(MIGRATION, migrationId, RANK, Integer.toString(rank)));
    }

    /** Replaces the calling thread's fields by these until the scope is closed. */
    public Scope open() {
        Scope scope = new Scope(current());
        CURRENT.set(this);
        return scope;
    }

    /** Runs {@code logs} with exactly these fields on the calling thread, and restores the previous ones. */
    public void logging(Runnable logs) {
        try (Scope scope = open()) {
            logs.run();
        }
    }

    /** Adds the migration to the calling thread's fields until the scope is closed. */
    public static Scope migration(String id) {
        return with(MIGRATION, id);
    }

    /** Adds the rank to the calling thread's fields until the scope is closed. */
    public static Scope rank(int rank) {
        return with(RANK, Integer.toString(rank));
    }

    /** Adds the peer to the calling thread's fields until the scope is closed. */
    public static Scope peer(String address) {
        return with(PEER, address);
    }

    private static Scope with(String field, String value) {
        Map<String, String> fields = new HashMap<>(current().fields);
        fields.put(field, value);
        return new LogContext(Map.copyOf(fields)).open();
    }

    /** Creates a daemon thread that has the calling thread's present fields. The caller starts it. */
    public static Thread thread(Runnable task, String name) {
        LogContext about = current();
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

    /** Returns the fields by their names in the journal. */
    public Map<String, String> fields() {
        return fields;
    }
}
