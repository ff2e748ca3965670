package io.ppmr.checkpoint;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A command as words with placeholders in braces. A value is inserted as it is. It is neither split nor expanded again.
 */
final class CommandTemplate {
    static final Set<String> CHECKPOINT_PLACEHOLDERS = Set.of("pid", "rank", "file", "dir", "work");
    static final Set<String> RESTART_PLACEHOLDERS = Set.of("rank", "file", "dir", "work", "pidfile");

    private static final Pattern PLACEHOLDER = Pattern.compile("\\{([a-z]+)}");

    private CommandTemplate() {}

    /** Refuses an empty command and an unknown placeholder. */
    static void require(String which, List<String> words, Set<String> known) {
        if (words.isEmpty() || words.get(0).isBlank()) {
            throw new IllegalArgumentException("the " + which + " command is empty. Remedy: give its words as a list");
        }
        for (String word : words) {
            Matcher matcher = PLACEHOLDER.matcher(word);
            while (matcher.find()) {
                if (!known.contains(matcher.group(1))) {
                    throw new IllegalArgumentException("the " + which + " command has the unknown placeholder "
                            + matcher.group() + ". Remedy: use one of "
                            + known.stream().sorted().toList());
                }
            }
        }
    }

    static List<String> fill(List<String> words, Map<String, String> values) {
        return words.stream().map(word -> fill(word, values)).toList();
    }

    static String fill(String word, Map<String, String> values) {
        return PLACEHOLDER
                .matcher(word)
                .replaceAll(match -> Matcher.quoteReplacement(values.getOrDefault(match.group(1), match.group())));
    }
}
