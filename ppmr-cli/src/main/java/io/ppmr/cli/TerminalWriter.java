package io.ppmr.cli;

import io.ppmr.linux.PrintableText;
import java.io.PrintWriter;
import java.io.Writer;

/**
 * Makes the output of commands harmless to a terminal. {@link #println(String)} prints one line and escapes the line
 * ends in its text. All other methods may print several lines. Control characters become escapes, except a carriage
 * return that is written as one character and the colors of {@link #printColored}. It flushes at each line. It is for
 * any thread, as its superclass.
 */
final class TerminalWriter extends PrintWriter {
    private static final char ESCAPE = '\u001b';

    TerminalWriter(Writer to) {
        super(to, true);
    }

    /** The colors that commands use, each with its number in ECMA-48. */
    enum Color {
        RED(31),
        YELLOW(33);

        private final int number;

        Color(int number) {
            this.number = number;
        }
    }

    /** Prints a text in bold and in a color, if this is such a writer. Otherwise prints only the text. */
    static void printColored(PrintWriter out, Color color, String text) {
        if (out instanceof TerminalWriter terminal) {
            terminal.colored(color, text);
        } else {
            out.print(text);
        }
    }

    private void colored(Color color, String text) {
        synchronized (lock) {
            raw(ESCAPE + "[1;" + color.number + "m");
            write(text);
            raw(ESCAPE + "[0m");
        }
    }

    private void raw(String text) {
        super.write(text, 0, text.length());
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
