package io.ppmr.daemon.log;

import io.ppmr.daemon.log.JournalSender.LogEntry;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.PrintableText;
import java.util.Optional;
import java.util.logging.ErrorManager;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;

/**
 * Makes an entry of the journal from a log record. The entry has message with stack trace, severity of syslog(3),
 * position in the code, and context of the thread. It is for any thread.
 */
final class JournalHandler extends Handler {
    private static final StackWalker WALKER = StackWalker.getInstance();

    private final JournalSender sender;
    private final String identifier;

    JournalHandler(JournalSender sender, String identifier) {
        this.sender = sender;
        this.identifier = identifier;
        setLevel(Level.ALL);
        setFormatter(new PlainFormatter());
    }

    @Override
    public void publish(LogRecord record) {
        if (!isLoggable(record)) {
            return;
        }
        try {
            sender.send(entry(record));
        } catch (RuntimeException e) {
            reportError("a log record cannot be sent to the journal", e, ErrorManager.WRITE_FAILURE);
        }
    }

    private byte[] entry(LogRecord record) {
        String message = getFormatter().formatMessage(record);
        LogEntry entry = new LogEntry()
                .add(
                        "MESSAGE",
                        record.getThrown() == null
                                ? message
                                : message + "\n" + PlainFormatter.trace(record.getThrown()))
                .add("PRIORITY", Integer.toString(priority(record.getLevel())))
                .add("SYSLOG_IDENTIFIER", identifier)
                .add("LOGGER", String.valueOf(record.getLoggerName()))
                .add("THREAD_NAME", PrintableText.line(Thread.currentThread().getName()));
        caller().ifPresent(frame -> entry.add("CODE_FILE", String.valueOf(frame.getFileName()))
                .add("CODE_LINE", Integer.toString(frame.getLineNumber()))
                .add("CODE_FUNC", frame.getClassName() + "." + frame.getMethodName()));
        LogContext.current().fields().forEach((name, value) -> entry.add(name, PrintableText.line(value)));
        return entry.datagram();
    }

    /** The first frame of the logging code. */
    private static Optional<StackWalker.StackFrame> caller() {
        return WALKER.walk(
                frames -> frames.filter(frame -> !frame.getClassName().startsWith("java.util.logging.")
                                && !frame.getClassName().startsWith("org.slf4j.")
                                && !frame.getClassName().equals(JournalHandler.class.getName()))
                        .findFirst());
    }

    /** syslog(3): 3 error, 4 warning, 6 informational, 7 debug. */
    private static int priority(Level level) {
        if (level.intValue() >= Level.SEVERE.intValue()) {
            return 3;
        }
        if (level.intValue() >= Level.WARNING.intValue()) {
            return 4;
        }
        return level.intValue() >= Level.INFO.intValue() ? 6 : 7;
    }

    /** Does nothing: entries leave at once, or wait for the journal. */
    @Override
    public void flush() {}

    @Override
    public void close() {
        sender.close();
    }
}
