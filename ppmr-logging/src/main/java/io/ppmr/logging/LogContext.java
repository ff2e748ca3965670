package io.ppmr.logging;

import java.util.Map;
import org.slf4j.MDC;

/**
 * What a thread's log lines are about, for other threads that log about the same: those of FUSE and of transports serve
 * many migrations. Immutable, any thread.
 */
public final class LogContext {
    private final Map<String, String> fields;

    private LogContext(Map<String, String> fields) {
        this.fields = fields;
    }

    /** What the calling thread is about now. */
    public static LogContext ofThisThread() {
        Map<String, String> fields = MDC.getCopyOfContextMap();
        return new LogContext(fields == null ? Map.of() : Map.copyOf(fields));
    }

    /** A rank of a migration. */
    public static LogContext of(String migrationId, int rank) {
        return new LogContext(Map.of(LogFields.MIGRATION, migrationId, LogFields.RANK, Integer.toString(rank)));
    }

    /** Logs as the thread that this was taken from, on the calling thread, which is then what it was before. */
    public void logging(Runnable logs) {
        Map<String, String> before = MDC.getCopyOfContextMap();
        MDC.setContextMap(fields);
        try {
            logs.run();
        } finally {
            MDC.setContextMap(before == null ? Map.of() : before);
        }
    }
}
