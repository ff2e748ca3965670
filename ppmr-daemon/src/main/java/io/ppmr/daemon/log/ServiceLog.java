package io.ppmr.daemon.log;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.logging.ConsoleHandler;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * The log of a program: goes into the journal, entry by entry, where standard error leads there, else to standard error
 * as plain lines. Works on {@code java.util.logging}, which SLF4J is bound to in the command line's program.
 * docs/internals/systemd.md has the fields.
 */
public final class ServiceLog {
    /** The environment variable that names the least severity: trace, debug, info, warn or error. */
    public static final String LEVEL = "PPMR_LOG_LEVEL";

    private static final Path JOURNAL = Path.of("/run/systemd/journal/socket");
    private static final long MOST_WAITING_BYTES = 4 << 20;

    /** Kept, since java.util.logging forgets the levels of loggers without a strong reference. */
    private static final List<Logger> QUIET =
            List.of(Logger.getLogger("com.ibm.disni"), Logger.getLogger("net.openhft"));

    /** True in a thread that logs nothing; the threads that it starts inherit that. */
    private static final ThreadLocal<Boolean> SILENT = new InheritableThreadLocal<>();

    private ServiceLog() {}

    /**
     * Leads everything that is logged from now on there; called once, first of all.
     *
     * @param identifier whose log it is, SYSLOG_IDENTIFIER
     */
    public static void begin(Map<String, String> environment, String identifier) {
        begin(environment, identifier, JOURNAL);
    }

    static void begin(Map<String, String> environment, String identifier, Path journal) {
        Logger root = Logger.getLogger("");
        for (Handler handler : root.getHandlers()) {
            root.removeHandler(handler);
        }
        root.setLevel(level(environment.getOrDefault(LEVEL, "info")));
        QUIET.forEach(logger -> logger.setLevel(Level.WARNING));
        if (leadsToJournal(environment)) {
            try {
                UnixDatagramSocket socket = UnixDatagramSocket.to(journal.toString(), Duration.ZERO);
                lead(root, new JournalHandler(new JournalSender(socket, identifier, MOST_WAITING_BYTES), identifier));
                return;
            } catch (IOException | LinkageError | RuntimeException e) {
                lead(root, plain());
                root.warning("the log has no fields: " + e.getMessage());
                return;
            }
        }
        lead(root, plain());
    }

    private static void lead(Logger root, Handler handler) {
        // Called by the thread that logs.
        handler.setFilter(record -> SILENT.get() == null);
        root.addHandler(handler);
    }

    /** Work that is done without a log. */
    public interface Work<T> {
        T run() throws IOException, InterruptedException;
    }

    /** Does something of which nothing is logged, neither by this thread nor by those that are started meanwhile. */
    public static <T> T silently(Work<T> work) throws IOException, InterruptedException {
        SILENT.set(true);
        try {
            return work.run();
        } finally {
            SILENT.remove();
        }
    }

    /** Returns true if standard error is the stream that systemd has made to the journal, systemd.exec(5). */
    private static boolean leadsToJournal(Map<String, String> environment) {
        String stream = environment.get("JOURNAL_STREAM");
        if (stream == null) {
            return false;
        }
        try {
            Map<String, Object> error = Files.readAttributes(Path.of("/proc/self/fd/2"), "unix:dev,ino");
            return stream.equals(error.get("dev") + ":" + error.get("ino"));
        } catch (IOException | UnsupportedOperationException e) {
            return false;
        }
    }

    private static Handler plain() {
        ConsoleHandler handler = new ConsoleHandler();
        handler.setFormatter(new PlainFormatter());
        handler.setLevel(Level.ALL);
        try {
            handler.setEncoding(StandardCharsets.UTF_8.name());
        } catch (IOException e) {
            throw new IllegalStateException("every JVM has UTF-8", e);
        }
        return handler;
    }

    private static Level level(String name) {
        return switch (name.toLowerCase(Locale.ROOT)) {
            case "trace" -> Level.FINEST;
            case "debug" -> Level.FINE;
            case "warn" -> Level.WARNING;
            case "error" -> Level.SEVERE;
            default -> Level.INFO;
        };
    }
}
