package io.ppmr.checkpoint.sharing;

/** Converts a name of a job's choice to a text that is safe in one line of a log. Stateless, for any thread. */
public final class EscapedName {
    private static final int LONGEST = 400;

    private EscapedName() {}

    /**
     * Returns the text with all characters except printable ASCII as backslash and octal digits. A long text is cut.
     */
    public static String text(String name) {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < name.length() && text.length() < LONGEST; at++) {
            char one = name.charAt(at);
            if (one < ' ' || one > '~' || one == '\\') {
                text.append(String.format("\\%03o", (int) one));
            } else {
                text.append(one);
            }
        }
        return text.length() < LONGEST ? text.toString() : text + "...";
    }
}
