package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Each link of a page leads to a file of the tree, and to a heading that is there. */
class PageLinksTest {
    private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();
    private static final Pattern LINK = Pattern.compile("\\]\\(([^)\\s]+)\\)");
    private static final Pattern HEADING = Pattern.compile("#{1,6} (.*)");
    private static final Pattern ELSEWHERE = Pattern.compile("[a-z]+:.*");
    private static final String CODE = "```";

    @Test
    void shouldFindWhatEachLinkLeadsTo() throws IOException {
        List<Path> pages = new ArrayList<>();
        for (String name : List.of("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "bench/README.md")) {
            pages.add(ROOT.resolve(name));
        }
        try (Stream<Path> docs = Files.walk(ROOT.resolve("docs"))) {
            docs.filter(path -> path.toString().endsWith(".md")).forEach(pages::add);
        }
        assertEquals(List.of(), brokenLinks(pages));
    }

    @Test
    void shouldNameThePageAndTheLinkThatLeadsNowhere(@TempDir Path folder) throws IOException {
        Path page = folder.resolve("page.md");
        Files.writeString(page, """
                # First part
                [right](#first-part) [other](other.md#a-b) [web](https://example.org/x)
                [gone](gone.md) [no part](#second) [no heading](other.md#c)
                ```
                [in code](nothing.md)
                ```
                """);
        Files.writeString(folder.resolve("other.md"), "## A `b`\n");
        assertEquals(
                List.of("page.md: gone.md", "page.md: #second", "page.md: other.md#c"), brokenLinks(List.of(page)));
    }

    private static List<String> brokenLinks(List<Path> pages) throws IOException {
        List<String> broken = new ArrayList<>();
        Map<Path, Set<String>> headings = new HashMap<>();
        for (Path page : pages) {
            for (String line : prose(page)) {
                for (Matcher link = LINK.matcher(line); link.find(); ) {
                    String target = link.group(1);
                    if (!ELSEWHERE.matcher(target).matches() && !leads(page, target, headings)) {
                        broken.add(page.getFileName() + ": " + target);
                    }
                }
            }
        }
        return broken;
    }

    private static boolean leads(Path page, String target, Map<Path, Set<String>> headings) throws IOException {
        int hash = target.indexOf('#');
        String name = hash < 0 ? target : target.substring(0, hash);
        Path file = name.isEmpty() ? page : page.resolveSibling(name).normalize();
        if (!Files.exists(file)) {
            return false;
        }
        if (hash < 0 || !file.toString().endsWith(".md")) {
            return true;
        }
        Set<String> known = headings.get(file);
        if (known == null) {
            known = headings(file);
            headings.put(file, known);
        }
        return known.contains(target.substring(hash + 1));
    }

    /** The names by which a page's headings can be linked to, as GitHub makes them. */
    private static Set<String> headings(Path page) throws IOException {
        Set<String> names = new TreeSet<>();
        for (String line : prose(page)) {
            Matcher heading = HEADING.matcher(line);
            if (heading.matches()) {
                String name = heading.group(1)
                        .strip()
                        .replaceAll("\\[([^\\]]*)\\]\\([^)]*\\)", "$1")
                        .toLowerCase(Locale.ROOT)
                        .replaceAll("[^\\p{L}\\p{N}_\\- ]", "")
                        .replace(' ', '-');
                String unique = name;
                for (int again = 1; !names.add(unique); again++) {
                    unique = name + "-" + again;
                }
            }
        }
        return names;
    }

    /** The lines of a page that are no code. */
    private static List<String> prose(Path page) throws IOException {
        List<String> lines = new ArrayList<>();
        boolean code = false;
        for (String line : Files.readAllLines(page)) {
            if (line.startsWith(CODE)) {
                code = !code;
            } else if (!code) {
                lines.add(line);
            }
        }
        return lines;
    }
}
