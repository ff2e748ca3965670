package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.StringWriter;
import org.junit.jupiter.api.Test;

class TerminalWriterTest {
    private final StringWriter printed = new StringWriter();
    private final TerminalWriter out = new TerminalWriter(printed);

    @Test
    void shouldPrintOneLineWhateverLineEndsAUserHasPutIntoIt() {
        out.println("job a\nidle\r\u001b[2J");
        out.println((Object) "b\nc");
        assertEquals("job a\\nidle\\r\\u001b[2J\nb\\nc\n", printed.toString());
    }

    @Test
    void shouldKeepTheLinesOfAPageAndNothingThatATerminalObeys() {
        out.print("a\n\tb\r\u009b1m\n");
        out.printf("%s%n", "c\u001b]0;title\u0007");
        out.append("d\u001bc").append('\u001b').write(new char[] {'\u001b', 'e', '\n'}, 0, 3);
        out.flush();
        assertEquals("a\n\tb\\r\\u009b1m\nc\\u001b]0;title\\u0007\nd\\u001bc\\u001b\\u001be\n", printed.toString());
    }

    @Test
    void shouldLetALineBeDrawnAgain() {
        out.write('\r');
        out.print("50 %");
        out.flush();
        assertEquals("\r50 %", printed.toString());
    }
}
