package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * The sources and the pages for engineers use the field's words: {@code build-tools/banned-words.txt} lists the others.
 * Also, one simple name belongs to one type. Private nested types are exempt, since their name is read in one file
 * only.
 */
class BannedWordsTest {
    private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();
    private static final Path LIST = ROOT.resolve("build-tools/banned-words.txt");
    private static final Pattern SOURCE = Pattern.compile(
            "(?:ppmr-[a-z-]+|bench)/(?:src/(?:main|testbed|bench)|conf)/.*\\.(?:java|c|h|toml|service|conf|sh)");
    private static final Pattern PAGE = Pattern.compile(
            "conf/[^/]*|docs/internals/(?:architecture|transaction|protocol|rdma|testing|decisions/.*)\\.md");
    private static final Pattern IDENTIFIER = Pattern.compile("\\b[A-Za-z_$][A-Za-z0-9_$]*\\b");
    private static final Pattern PART = Pattern.compile("[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])");
    private static final Pattern PROSE = Pattern.compile(
            "\"(?:[^\"\\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\\n]|\\\\.)'|//[^\\n]*|/\\*.*?\\*/", Pattern.DOTALL);
    private static final Pattern TYPE =
            Pattern.compile("^\\s*((?:(?:public|protected|private|static|final|abstract|sealed|non-sealed)\\s+)*)"
                    + "(?:class|interface|record|enum|@interface)\\s+(\\w+)");
    /** A comment's line end, with the prefix of its next word. */
    private static final String GAP = "(?:\\\\s+(?:(?:\\\\*|//|#)\\\\s+)?)";

    /** Types that share their simple name with another one, each listed once. They are renamed with their records. */
    private static final List<String> SHARED_NAMES = List.of("Event", "Reader");

    private record Rule(Pattern identifier, Pattern prose, String replacement, List<String> exceptions) {
        boolean applies(String path) {
            return exceptions.stream().noneMatch(path::contains);
        }
    }

    @Test
    void shouldFindNoBannedWordWhenTheTreeIsRead() throws IOException {
        List<Rule> rules = rules(Files.readAllLines(LIST));
        List<String> found = new ArrayList<>();
        for (Path file : files()) {
            find(ROOT.relativize(file).toString(), Files.readString(file), rules, found);
        }
        assertEquals(List.of(), found);
    }

    @Test
    void shouldNameFileLineWordAndReplacementWhenABannedWordIsThere() {
        List<Rule> rules = rules(List.of(
                "# a comment",
                "anew | prose | again |",
                "any more | prose | no longer |",
                "fate | identifiers | failure | Old.java"));
        List<String> found = new ArrayList<>();
        find("A.java", "/* It is not there any\n * more. */\nint imageFate = anew();\n// Begins anew\n", rules, found);
        find("Old.java", "int IMAGE_FATE;", rules, found);
        find("page.md", "Begins anew, whatever its fate.", rules, found);
        assertEquals(
                List.of(
                        "A.java:1: any more (write: no longer)",
                        "A.java:3: imageFate (write: failure)",
                        "A.java:4: anew (write: again)",
                        "page.md:1: anew (write: again)"),
                found.stream().sorted().toList());
    }

    @Test
    void shouldFindOneTypeWhenASimpleNameIsLookedUp() throws IOException {
        Map<String, List<String>> types = new TreeMap<>();
        for (Path file : files()) {
            String path = ROOT.relativize(file).toString();
            if (!path.endsWith(".java") || !path.contains("/src/main/")) {
                continue;
            }
            for (String line : Files.readAllLines(file)) {
                Matcher type = TYPE.matcher(line);
                if (type.find() && !type.group(1).contains("private")) {
                    types.computeIfAbsent(type.group(2), name -> new ArrayList<>())
                            .add(path);
                }
            }
        }
        types.values().removeIf(paths -> paths.size() == 1);
        types.keySet().removeAll(SHARED_NAMES);
        assertEquals(Map.of(), types);
    }

    private static List<Path> files() throws IOException {
        try (Stream<Path> all = Files.walk(ROOT)) {
            return all.filter(Files::isRegularFile)
                    .filter(file -> {
                        String path = ROOT.relativize(file).toString();
                        return SOURCE.matcher(path).matches()
                                || PAGE.matcher(path).matches();
                    })
                    .sorted()
                    .toList();
        }
    }

    private static List<Rule> rules(List<String> lines) {
        List<Rule> rules = new ArrayList<>();
        for (String line : lines) {
            if (line.isBlank() || line.startsWith("#")) {
                continue;
            }
            String[] columns = line.split("\\s\\|", -1);
            String regex = columns[0].strip();
            String where = columns[1].strip();
            Pattern identifier = where.equals("prose") ? null : Pattern.compile(regex);
            Pattern prose = where.equals("identifiers")
                    ? null
                    : Pattern.compile(
                            "(?<![\\w-])(?:" + regex.replaceAll(" ", GAP) + ")(?![\\w-])", Pattern.CASE_INSENSITIVE);
            List<String> exceptions = Stream.of(columns[3].strip().split("\\s+"))
                    .filter(path -> !path.isEmpty())
                    .toList();
            rules.add(new Rule(identifier, prose, columns[2].strip(), exceptions));
        }
        return rules;
    }

    private static void find(String path, String text, List<Rule> rules, List<String> found) {
        List<Rule> ofFile = rules.stream().filter(rule -> rule.applies(path)).toList();
        boolean isCode = path.matches(".*\\.(java|c|h)");
        if (!isCode) {
            findInProse(path, text, text, 0, ofFile, found);
            return;
        }
        StringBuilder code = new StringBuilder(text);
        for (Matcher prose = PROSE.matcher(text); prose.find(); ) {
            findInProse(path, text, prose.group(), prose.start(), ofFile, found);
            for (int i = prose.start(); i < prose.end(); i++) {
                code.setCharAt(i, ' ');
            }
        }
        for (Matcher name = IDENTIFIER.matcher(code); name.find(); ) {
            for (Matcher part = PART.matcher(name.group()); part.find(); ) {
                String word = part.group().toLowerCase(Locale.ROOT);
                for (Rule rule : ofFile) {
                    if (rule.identifier() != null
                            && rule.identifier().matcher(word).matches()) {
                        found.add(place(path, text, name.start()) + name.group() + write(rule));
                    }
                }
            }
        }
    }

    private static void findInProse(
            String path, String text, String prose, int start, List<Rule> rules, List<String> found) {
        for (Rule rule : rules) {
            if (rule.prose() == null) {
                continue;
            }
            for (Matcher word = rule.prose().matcher(prose); word.find(); ) {
                String shown = word.group().replaceAll("\\s+(?:(?:\\*|//|#)\\s+)?", " ");
                found.add(place(path, text, start + word.start()) + shown + write(rule));
            }
        }
    }

    private static String place(String path, String text, int at) {
        return path + ":" + (text.substring(0, at).lines().count() + (at == 0 || text.charAt(at - 1) == '\n' ? 1 : 0))
                + ": ";
    }

    private static String write(Rule rule) {
        return " (write: " + rule.replacement() + ")";
    }
}
