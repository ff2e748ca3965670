package io.ppmr.linux;

import java.util.List;
import java.util.Optional;

/**
 * A text of proc(5) that has lines {@code NAME:VALUE}, such as {@code status}. A field is searched for when it is
 * requested, so that the other fields cost nothing. Immutable.
 *
 * @param text the whole text
 */
public record ProcFields(String text) {
    /** Returns the value of the first line with that name, without surrounding blanks; empty if there is none. */
    public Optional<String> value(String name) {
        int start = start(name);
        if (start < 0) {
            return Optional.empty();
        }
        int end = text.indexOf('\n', start);
        return Optional.of(text.substring(start, end < 0 ? text.length() : end).strip());
    }

    /** Returns the lines with these names, in the order of the text. It reads the text once. */
    public String lines(List<String> names) {
        String[] wanted = names.toArray(String[]::new);
        StringBuilder found = new StringBuilder(text.length());
        int start = 0;
        while (start < text.length()) {
            int next = text.indexOf('\n', start);
            int end = next < 0 ? text.length() : next;
            if (isNamed(start, wanted)) {
                found.append(text, start, end).append('\n');
            }
            start = end + 1;
        }
        return found.toString();
    }

    private boolean isNamed(int start, String[] names) {
        char first = text.charAt(start);
        for (String name : names) {
            // Most lines differ in the first character. A process may have thousands of threads.
            if (name.charAt(0) == first && text.startsWith(name, start)) {
                int colon = start + name.length();
                if (colon < text.length() && text.charAt(colon) == ':') {
                    return true;
                }
            }
        }
        return false;
    }

    /** Returns the position after the colon. */
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
