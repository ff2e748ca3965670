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
 * The log of a program: entries of the journal if standard error is connected to it, otherwise plain lines on standard
 * error. Uses {@code java.util.logging}, to which the command line's program binds SLF4J.
 * docs/internals/systemd.md has the fields.
 */
public final class ServiceLog {
    /** The environment variable that names the least severity: trace, debug, info, warn or error. */
    public static final String LEVEL = "PPMR_LOG_LEVEL";

    private static final Path JOURNAL = Path.of("/run/systemd/journal/socket");
    private static final long MOST_WAITING_BYTES = 4 << 20;

    /** A strong reference, without which java.util.logging loses the levels of loggers. */
    private static final List<Logger> QUIET =
            List.of(Logger.getLogger("com.ibm.disni"), Logger.getLogger("net.openhft"));

    /** True in a thread that logs nothing. The threads that it starts inherit that. */
    private static final ThreadLocal<Boolean> SILENT = new InheritableThreadLocal<>();

    private ServiceLog() {}

    /**
     * Redirects all further log records. Called once, before anything else.
     *
     * @param identifier the name of the program, SYSLOG_IDENTIFIER
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
        // The logging thread calls this.
        handler.setFilter(record -> SILENT.get() == null);
        root.addHandler(handler);
    }

    /** A task without log records. */
    public interface Work<T> {
        T run() throws IOException, InterruptedException;
    }

    /** Runs a task without log records of this thread and of the threads that it starts. */
    public static <T> T silently(Work<T> work) throws IOException, InterruptedException {
        SILENT.set(true);
        try {
            return work.run();
        } finally {
            SILENT.remove();
        }
    }

    /** Returns true if standard error is the stream that systemd connected to the journal, systemd.exec(5). */
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
