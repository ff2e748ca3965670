package io.ppmr.daemon.log;

import io.ppmr.linux.PrintableText;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.Locale;
import java.util.logging.Formatter;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.stream.Collectors;

/**
 * Formats a log record as a line for people. The line has time, thread, severity, class and message. It escapes texts
 * of users for all log lines. A record is one line, and a stack trace is indented, so that no user can forge a record.
 * It is for any thread.
 */
final class PlainFormatter extends Formatter {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd.HH:mm:ss.SSSXXX", Locale.ROOT)
            .withZone(ZoneId.systemDefault());
    private static final String INDENT = "    ";

    @Override
    public String format(LogRecord record) {
        String logger = String.valueOf(record.getLoggerName());
        String line = TIME.format(record.getInstant()) + " ["
                + PrintableText.line(Thread.currentThread().getName()) + "] " + severity(record.getLevel()) + " "
                + logger.substring(logger.lastIndexOf('.') + 1) + " - " + formatMessage(record) + "\n";
        return record.getThrown() == null ? line : line + trace(record.getThrown());
    }

    @Override
    public String formatMessage(LogRecord record) {
        return PrintableText.line(super.formatMessage(record));
    }

    /** Formats a stack trace in indented lines, with a line end. */
    static String trace(Throwable thrown) {
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text, true));
        return text.toString()
                .lines()
                .map(line -> INDENT + PrintableText.line(line) + "\n")
                .collect(Collectors.joining());
    }

    private static String severity(Level level) {
        if (level.intValue() >= Level.SEVERE.intValue()) {
            return "ERROR";
        }
        if (level.intValue() >= Level.WARNING.intValue()) {
            return "WARN";
        }
        if (level.intValue() >= Level.INFO.intValue()) {
            return "INFO";
        }
        return level.intValue() >= Level.FINE.intValue() ? "DEBUG" : "TRACE";
    }
}
