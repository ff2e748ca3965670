package io.ppmr.system.guest;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Keeps the log records while it is open. They go to standard error. */
final class LogLines implements AutoCloseable {
    private final PrintStream ordinary = System.err;
    private final ByteArrayOutputStream lines = new ByteArrayOutputStream();

    LogLines() {
        System.setErr(new PrintStream(lines, true, StandardCharsets.UTF_8));
    }

    boolean says(String words) {
        return text().contains(words);
    }

    String text() {
        return lines.toString(StandardCharsets.UTF_8);
    }

    @Override
    public void close() {
        System.setErr(ordinary);
        ordinary.print(text());
    }
}
