package io.ppmr.checkpoint;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * The common rights of threads of one rank. Most threads of a large process have equal rights, so these are written
 * once, and each thread refers to them by a number. Both nodes bound the kept rights. If a rank has many different
 * rights, the lines of its threads contain the others. Owned by one thread.
 */
final class SharedRights {
    /** Number of digits of a number, so that there are at most 256 numbers. */
    static final int DIGITS = 3;

    private static final int MOST = 256;
    private static final int MOST_CHARS = 256 << 10;

    private final Map<String, String> numbers = new HashMap<>();
    private final Map<String, String> words = new HashMap<>();
    private int chars;

    /** Returns the number of these words, or empty if they have none. */
    Optional<String> number(String ofWords) {
        return Optional.ofNullable(numbers.get(ofWords));
    }

    /** Returns the words of a number, or empty if it is unknown. */
    Optional<String> words(String ofNumber) {
        return Optional.ofNullable(words.get(ofNumber));
    }

    /** Assigns the next number to words, or empty if there is no room for more. */
    Optional<String> add(String newWords) {
        String number = "%03d".formatted(words.size());
        return put(number, newWords) ? Optional.of(number) : Optional.empty();
    }

    /** Stores words under a number. Returns false if the number is used, or there is no room for more. */
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
