package io.ppmr.cli;

import io.ppmr.os.PrintableText;
import java.io.PrintWriter;
import java.io.Writer;

/**
 * Makes harmless what commands print: {@link #println(String)} prints one line whatever line ends are in its text,
 * everything else may have several. Nothing that a terminal obeys passes, but a carriage return that is written as one
 * character, by the code that draws a line again. Flushes at each line. For any thread, as its superclass.
 */
final class TerminalWriter extends PrintWriter {
    TerminalWriter(Writer to) {
        super(to, true);
    }

    @Override
    public void println(String text) {
        synchronized (lock) {
            print(PrintableText.line(String.valueOf(text)));
            println();
        }
    }

    @Override
    public void println(Object value) {
        println(String.valueOf(value));
    }

    @Override
    public void write(int one) {
        if (one == '\r') {
            super.write(one);
        } else {
            write(String.valueOf((char) one));
        }
    }

    @Override
    public void write(char[] text, int offset, int length) {
        write(new String(text, offset, length));
    }

    @Override
    public void write(String text, int offset, int length) {
        write(text.substring(offset, offset + length));
    }

    @Override
    public void write(String text) {
        String printable = PrintableText.lines(text);
        super.write(printable, 0, printable.length());
    }
}
