package io.ppmr.os;

import java.util.Optional;

/**
 * A text of proc(5) that has lines {@code NAME:VALUE}, such as {@code status}. A field is looked for when it is wanted,
 * so that nothing is made of the others. Immutable.
 *
 * @param text all of it
 */
public record ProcFields(String text) {
    /** Returns the value of the first line of that name, without the blanks around it; empty if there is none. */
    public Optional<String> value(String name) {
        int start = start(name);
        if (start < 0) {
            return Optional.empty();
        }
        int end = text.indexOf('\n', start);
        return Optional.of(text.substring(start, end < 0 ? text.length() : end).strip());
    }

    /** The place behind the colon. */
    private int start(String name) {
        int at = text.indexOf(name);
        while (at >= 0) {
            int colon = at + name.length();
            if ((at == 0 || text.charAt(at - 1) == '\n') && colon < text.length() && text.charAt(colon) == ':') {
                return colon + 1;
            }
            at = text.indexOf(name, at + 1);
        }
        return -1;
    }
}
