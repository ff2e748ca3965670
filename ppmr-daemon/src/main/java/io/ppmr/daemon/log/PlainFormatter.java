package io.ppmr.daemon.log;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.Locale;
import java.util.logging.Formatter;
import java.util.logging.Level;
import java.util.logging.LogRecord;

/** A log record as a line for people: time, thread, severity, class and message. Any thread. */
final class PlainFormatter extends Formatter {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd.HH:mm:ss.SSSXXX", Locale.ROOT)
            .withZone(ZoneId.systemDefault());

    @Override
    public String format(LogRecord record) {
        String logger = String.valueOf(record.getLoggerName());
        String line =
                TIME.format(record.getInstant()) + " [" + Thread.currentThread().getName() + "] "
                        + severity(record.getLevel()) + " " + logger.substring(logger.lastIndexOf('.') + 1) + " - "
                        + formatMessage(record) + "\n";
        return record.getThrown() == null ? line : line + trace(record.getThrown());
    }

    /** With the line end at its end. */
    static String trace(Throwable thrown) {
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text, true));
        return text.toString();
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
