package io.ppmr.checkpoint;

import java.util.HashSet;
import java.util.Set;

/**
 * Remembers recent texts, so that most of what comes again and again is dealt with once, in a memory that does not grow
 * with what comes. For one thread.
 */
final class RecentTexts {
    private static final int MAX_CHARS = 256 << 10;

    private final Set<String> texts = new HashSet<>();
    private int chars;

    /** Returns true if it has not come before, or so long ago that this is forgotten. */
    boolean isNew(String text) {
        if (!texts.add(text)) {
            return false;
        }
        chars += text.length();
        if (chars > MAX_CHARS) {
            texts.clear();
            chars = 0;
        }
        return true;
    }
}
