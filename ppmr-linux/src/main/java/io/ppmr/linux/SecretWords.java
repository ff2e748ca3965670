package io.ppmr.linux;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds passwords among the words of a command, so that they are rejected in a world-readable configuration and hidden
 * in logs. It recognizes the usual options ({@code --password}, {@code --token}), assignments ({@code IPMI_PASSWORD=})
 * and addresses ({@code https://user:password@}). It also recognizes the short options of programs that switch nodes
 * off. Passwords in other places are not found. Stateless, for any thread.
 */
public final class SecretWords {
    private static final String HIDDEN = "***";
    private static final Pattern OPTION =
            Pattern.compile("(?i)(--?(?:pass(?:word|wd|phrase)?|passwd|secret|token|api-?key))(?:=(.+))?");
    private static final Pattern ASSIGNMENT =
            Pattern.compile("(?i)([a-z0-9_]*(?:password|passwd|passphrase|secret|token|api_?key))=(.+)");
    private static final Pattern ADDRESS = Pattern.compile("([a-z][a-z0-9+.-]*://[^/@:]+:)([^/@]+)@.*");
    private static final Pattern WORD = Pattern.compile("\\S+");
    /** A placeholder that the configuration replaces later. */
    private static final Pattern PLACEHOLDER = Pattern.compile("\\{[a-z]+}");

    /** The options after which a program expects a password. */
    private record Switch(Pattern program, Set<String> options) {}

    private static final List<Switch> SWITCHES = List.of(
            new Switch(Pattern.compile("ipmitool"), Set.of("-P")),
            new Switch(Pattern.compile("fence_\\w+|racadm|sshpass"), Set.of("-p")),
            new Switch(Pattern.compile("ipmi-?power|ipmi-[a-z]+"), Set.of("-p")),
            new Switch(Pattern.compile("curl|wget"), Set.of("-u", "--user")));

    /** A password and its position in a word. {@code behind} is the text that identifies it. */
    private record Found(int word, int start, int end, String behind) {}

    private SecretWords() {}

    /** Returns the text that identifies a password, such as {@code --password}; empty if none is found. */
    public static Optional<String> in(List<String> words) {
        return find(words).stream().findFirst().map(Found::behind);
    }

    /** Returns a command as one text in which each found password is hidden. */
    public static String hidden(List<String> words) {
        List<String> shown = new ArrayList<>(words);
        List<Found> all = find(words);
        // In reverse order, because a replacement moves later positions in the same word.
        for (int i = all.size() - 1; i >= 0; i--) {
            Found one = all.get(i);
            String word = shown.get(one.word());
            shown.set(one.word(), word.substring(0, one.start()) + HIDDEN + word.substring(one.end()));
        }
        return String.join(" ", shown);
    }

    /** A word may be a whole command line, as after {@code sh -c}, so each of its parts is checked as a word. */
    private static List<Found> find(List<String> words) {
        List<Found> all = new ArrayList<>();
        Set<String> options = Set.of();
        String behind = "";
        for (int i = 0; i < words.size(); i++) {
            Matcher parts = WORD.matcher(words.get(i));
            while (parts.find()) {
                String part = parts.group();
                int from = parts.start();
                Matcher option = OPTION.matcher(part);
                Matcher assigned = ASSIGNMENT.matcher(part);
                Matcher address = ADDRESS.matcher(part);
                String before = behind;
                behind = "";
                if (!before.isEmpty() && !part.startsWith("-")) {
                    add(all, i, from, part, before);
                } else if (option.matches() && option.group(2) != null) {
                    add(all, i, from + option.start(2), option.group(2), option.group(1));
                } else if (option.matches() || options.contains(part)) {
                    behind = part;
                } else if (assigned.matches()) {
                    add(all, i, from + assigned.start(2), assigned.group(2), assigned.group(1) + "=");
                } else if (address.matches()) {
                    add(all, i, from + address.start(2), address.group(2), address.group(1));
                } else {
                    options = optionsOf(part).orElse(options);
                }
            }
        }
        return all;
    }

    private static void add(List<Found> to, int word, int start, String value, String behind) {
        if (!PLACEHOLDER.matcher(value).matches() && !isFile(value)) {
            to.add(new Found(word, start, start + value.length(), behind));
        }
    }

    private static boolean isFile(String value) {
        return value.startsWith("/") && value.indexOf('\0') < 0 && Files.exists(Path.of(value));
    }

    private static Optional<Set<String>> optionsOf(String program) {
        String name = program.substring(program.lastIndexOf('/') + 1);
        return SWITCHES.stream()
                .filter(one -> one.program().matcher(name).matches())
                .map(Switch::options)
                .findFirst();
    }
}
