package io.ppmr.checkpoint.files;

import java.util.List;
import java.util.regex.Pattern;

/**
 * Patterns for paths. {@code *} stands for any characters of one name, and {@code **} at the end for everything in a
 * folder. Names are bytes, and each byte is one character from 0 to 255. Immutable.
 */
public final class PathPatterns {
    /** No patterns. */
    public static final PathPatterns NONE = new PathPatterns(List.of());

    private final List<String> words;
    private final List<Pattern> patterns;

    /**
     * @param words absolute paths with {@code *} in them, by bytes
     *
     * @throws IllegalArgumentException if one is not absolute, or has {@code ..} in it
     */
    public PathPatterns(List<String> words) {
        this.words = List.copyOf(words);
        this.patterns = words.stream().map(PathPatterns::pattern).toList();
    }

    private static Pattern pattern(String word) {
        if (!word.startsWith("/") || (word + "/").contains("/../")) {
            throw new IllegalArgumentException("'" + word + "' is no absolute path without '..'");
        }
        StringBuilder expression = new StringBuilder();
        for (int at = 0; at < word.length(); at++) {
            if (word.startsWith("**", at)) {
                expression.append(".*");
                at++;
            } else if (word.charAt(at) == '*') {
                expression.append("[^/]*");
            } else {
                expression.append(Pattern.quote(word.substring(at, at + 1)));
            }
        }
        return Pattern.compile(expression.toString(), Pattern.DOTALL);
    }

    /** Returns true if there are no patterns. */
    public boolean isEmpty() {
        return patterns.isEmpty();
    }

    /** Returns true if one of them matches the whole path. */
    public boolean matches(String path) {
        return patterns.stream().anyMatch(pattern -> pattern.matcher(path).matches());
    }

    @Override
    public String toString() {
        return words.toString();
    }
}
