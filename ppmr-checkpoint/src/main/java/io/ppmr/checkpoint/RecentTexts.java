package io.ppmr.checkpoint;

import java.util.HashSet;
import java.util.Set;

/** Keeps recent texts, so that most repeated texts are handled once. Its memory is bounded. For one thread. */
final class RecentTexts {
    private static final int MAX_CHARS = 256 << 10;

    private final Set<String> texts = new HashSet<>();
    private int chars;

    /** Returns true if the text is new, or was already dropped. */
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
