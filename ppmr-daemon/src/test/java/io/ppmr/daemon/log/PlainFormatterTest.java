package io.ppmr.daemon.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import org.junit.jupiter.api.Test;

class PlainFormatterTest {
    private static final String SLY = "a\u001b[2J\n2026-01-01.00:00:00.000Z [main] ERROR Forged - b\u009b1m";

    private static String formatted(String message, Throwable thrown) {
        LogRecord record = new LogRecord(Level.WARNING, message);
        record.setLoggerName("io.ppmr.Some");
        record.setThrown(thrown);
        return new PlainFormatter().format(record);
    }

    @Test
    void shouldWriteOneLineWithNothingThatATerminalObeysWhenAMessageHasUsersWords() {
        String text = formatted("job " + SLY, null);
        assertEquals(1, text.lines().count(), text);
        assertTrue(
                text.endsWith(
                        "WARN Some - job a\\u001b[2J\\n2026-01-01.00:00:00.000Z [main] ERROR Forged - b\\u009b1m\n"),
                text);
    }

    @Test
    void shouldIndentEachLineOfATraceWhenItsMessageHasUsersWords() {
        String text = formatted("failed", new IOException(SLY, new IOException("cause " + SLY)));
        List<String> lines = text.lines().toList();
        assertTrue(lines.size() > 3, text);
        assertTrue(lines.stream().skip(1).allMatch(line -> line.startsWith("    ")), text);
        assertTrue(text.chars().noneMatch(one -> Character.isISOControl(one) && one != '\n' && one != '\t'), text);
    }
}
