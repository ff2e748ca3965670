package io.ppmr.checkpoint;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * The rights that threads of one rank have in common. Most threads of a crowd may do the same, so that is written once,
 * and each of them names it by a number. Both ends bound what they keep: a rank with many different rights has the
 * others in the lines of its threads. Owned by one thread.
 */
final class SharedRights {
    /** A number has as many digits, so that there are at most 256 of them. */
    static final int DIGITS = 3;

    private static final int MOST = 256;
    private static final int MOST_CHARS = 256 << 10;

    private final Map<String, String> numbers = new HashMap<>();
    private final Map<String, String> words = new HashMap<>();
    private int chars;

    /** Returns the number of these words; empty if they have none. */
    Optional<String> number(String ofWords) {
        return Optional.ofNullable(numbers.get(ofWords));
    }

    /** Returns the words of a number; empty if it is not known. */
    Optional<String> words(String ofNumber) {
        return Optional.ofNullable(words.get(ofNumber));
    }

    /** Gives words the next number; empty if there is no room for more. */
    Optional<String> add(String newWords) {
        String number = "%03d".formatted(words.size());
        return put(number, newWords) ? Optional.of(number) : Optional.empty();
    }

    /** Keeps words under a number; returns false if the number is taken, or there is no room for more. */
    boolean put(String number, String newWords) {
        if (words.size() == MOST || chars + newWords.length() > MOST_CHARS || words.containsKey(number)) {
            return false;
        }
        words.put(number, newWords);
        numbers.put(newWords, number);
        chars += newWords.length();
        return true;
    }
}
