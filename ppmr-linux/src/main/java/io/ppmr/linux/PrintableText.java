package io.ppmr.linux;

/**
 * Escapes text before it is shown to people: users choose the names of processes and jobs, paths and messages. A
 * control character could move a terminal's cursor or set its title, and a line end could forge a line. A character
 * that changes the direction of writing could hide text. Each becomes a JSON escape, so a string in a JSON text keeps
 * its meaning. Stateless, for any thread.
 */
public final class PrintableText {
    private static final int SPACE = 0x20;
    private static final int DELETE = 0x7f;
    /** The last of the C1 controls, which a terminal treats like ESC and a letter. */
    private static final int LAST_CONTROL = 0x9f;

    private PrintableText() {}

    /** Returns a text as one line. */
    public static String line(String text) {
        return filtered(text, true);
    }

    /** Returns a text that keeps its line ends. */
    public static String lines(String text) {
        return filtered(text, false);
    }

    private static String filtered(String text, boolean oneLine) {
        int length = text.length();
        int at = 0;
        while (at < length && isHarmless(text.charAt(at), oneLine)) {
            at++;
        }
        if (at == length) {
            return text;
        }
        StringBuilder filtered = new StringBuilder(length + 16).append(text, 0, at);
        for (; at < length; at++) {
            char one = text.charAt(at);
            if (isHarmless(one, oneLine)) {
                filtered.append(one);
            } else {
                append(filtered, one);
            }
        }
        return filtered.toString();
    }

    private static void append(StringBuilder to, char harmful) {
        switch (harmful) {
            case '\n' -> to.append("\\n");
            case '\r' -> to.append("\\r");
            default -> to.append(String.format("\\u%04x", (int) harmful));
        }
    }

    private static boolean isHarmless(char one, boolean oneLine) {
        if (one < SPACE) {
            return one == '\t' || (one == '\n' && !oneLine);
        }
        return (one < DELETE || one > LAST_CONTROL) && !isLineOrDirection(one);
    }

    /** U+2028 and U+2029 end lines. The others change the direction of what follows. */
    private static boolean isLineOrDirection(char one) {
        return one == '\u061c'
                || one == '\u200e'
                || one == '\u200f'
                || (one >= '\u2028' && one <= '\u202e')
                || (one >= '\u2066' && one <= '\u2069');
    }
}
