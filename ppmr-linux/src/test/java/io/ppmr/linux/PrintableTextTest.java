package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;

class PrintableTextTest {
    @Test
    void shouldLeaveHarmlessTextAsItIs() {
        String text = "rank 3 of 'käse' in /home/ö: 日本 \\ \"";
        assertSame(text, PrintableText.line(text));
        assertSame(text, PrintableText.lines(text));
    }

    @Test
    void shouldEscapeTerminalControls() {
        assertEquals("a\\u001b[2Jb\\u009b1mc\\u0007\\u007f", PrintableText.line("a\u001b[2Jb\u009b1mc\u0007\u007f"));
        assertEquals("\\u202egnp.exe \\u2066x\\u2028y", PrintableText.line("\u202egnp.exe \u2066x\u2028y"));
    }

    @Test
    void shouldKeepLineEndsWhereTextHasSeveralLines() {
        assertEquals("a\\nb\tc\\r", PrintableText.line("a\nb\tc\r"));
        assertEquals("a\nb\tc\\r\\u001b", PrintableText.lines("a\nb\tc\r\u001b"));
    }

    @Property
    void shouldLeaveNothingThatIsAControlCharacter(@ForAll String text) {
        String line = PrintableText.line(text);
        assertTrue(line.chars().noneMatch(one -> Character.isISOControl(one) && one != '\t'), line);
        assertEquals(line, PrintableText.line(line), "what is filtered is harmless");
        assertTrue(line.codePoints()
                .noneMatch(one -> Character.getDirectionality(one) == Character.DIRECTIONALITY_RIGHT_TO_LEFT_OVERRIDE));
    }
}
