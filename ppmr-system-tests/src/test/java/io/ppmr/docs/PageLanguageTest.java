package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Pages for users and administrators have short sentences and plain words. Pages for engineers have a wider limit. */
class PageLanguageTest {
    private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();
    private static final Path WORDS = ROOT.resolve("build-tools/page-words.txt");

    private static final int LONGEST = 30;
    private static final double AVERAGE = 14;
    private static final int LONGEST_FOR_ENGINEERS = 45;

    private record Word(Pattern pattern, String replacement) {}

    @Test
    void shouldHaveShortSentencesWhenAPageIsForUsersOrAdministrators() throws IOException {
        List<String> found = new ArrayList<>();
        int words = 0;
        int sentences = 0;
        for (Path page : pagesForUsers()) {
            for (PageText.Sentence sentence : new PageText(Files.readString(page)).sentences()) {
                if (sentence.words() > LONGEST) {
                    found.add(place(page, sentence) + sentence.words() + " words: " + sentence.text());
                }
                if (sentence.parentheses() > 1) {
                    found.add(place(page, sentence) + "more than one parenthesis: " + sentence.text());
                }
                if (sentence.isComplete()) {
                    words += sentence.words();
                    sentences++;
                }
            }
        }
        assertEquals(List.of(), found);
        double average = (double) words / sentences;
        assertTrue(average <= AVERAGE, "words a sentence: " + average);
    }

    @Test
    void shouldHaveOneSentenceALineWhenAPageIsForUsersOrAdministrators() throws IOException {
        List<String> found = new ArrayList<>();
        for (Path page : pagesForUsers()) {
            for (String fault : new PageText(Files.readString(page)).layoutFaults()) {
                found.add(ROOT.relativize(page) + ":" + fault);
            }
        }
        assertEquals(List.of(), found);
    }

    @Test
    void shouldUsePlainWordsWhenAPageIsForUsersOrAdministrators() throws IOException {
        List<Word> words = words(Files.readAllLines(WORDS));
        List<String> found = new ArrayList<>();
        for (Path page : pagesForUsers()) {
            for (PageText.Sentence sentence : new PageText(Files.readString(page)).sentences()) {
                for (Word word : words) {
                    for (Matcher match = word.pattern().matcher(sentence.text()); match.find(); ) {
                        found.add(place(page, sentence) + match.group() + " (write: " + word.replacement() + ")");
                    }
                }
            }
        }
        assertEquals(List.of(), found);
    }

    @Test
    void shouldHaveNoVeryLongSentenceWhenAPageIsForEngineers() throws IOException {
        List<String> found = new ArrayList<>();
        List<Path> pages = new ArrayList<>(pagesBelow("docs/internals"));
        pages.addAll(pagesBelow("docs/results"));
        pages.add(ROOT.resolve("CONTRIBUTING.md"));
        pages.add(ROOT.resolve("SECURITY.md"));
        for (Path page : pages) {
            for (PageText.Sentence sentence : new PageText(Files.readString(page)).sentences()) {
                if (sentence.words() > LONGEST_FOR_ENGINEERS) {
                    found.add(place(page, sentence) + sentence.words() + " words: " + sentence.text());
                }
            }
        }
        assertEquals(List.of(), found);
    }

    @Test
    void shouldFindLineWordsAndParenthesesWhenAPageIsRead() {
        PageText page = new PageText("""
                # A heading. It is left out.
                A line. Another one
                that goes over it.
                ```
                Code. More code
                ```
                - An item with `kill -9. X` and [a link](page.md#a) (one) (two).

                | A cell. Two sentences | kill(2) |
                |---|---|
                """);
        assertEquals(
                List.of(
                        "2 2 false A line.",
                        "2 6 false Another one that goes over it.",
                        "7 9 false An item with X and a link (one) (two).",
                        "9 2 true A cell.",
                        "9 2 true Two sentences",
                        "9 1 true kill(2)"),
                page.sentences().stream()
                        .map(sentence -> sentence.line() + " " + sentence.words() + " " + sentence.isCell() + " "
                                + sentence.text())
                        .toList());
        assertEquals(
                List.of(0, 0, 2, 0, 0, 0),
                page.sentences().stream().map(PageText.Sentence::parentheses).toList());
        assertEquals(
                List.of("2: more than one sentence on the line", "3: the sentence began on an earlier line"),
                page.layoutFaults());
    }

    private static List<Path> pagesForUsers() throws IOException {
        List<Path> pages = new ArrayList<>(List.of(ROOT.resolve("README.md")));
        for (String folder : List.of("docs/user", "docs/admin", "docs/reference")) {
            pages.addAll(pagesBelow(folder));
        }
        return pages;
    }

    private static List<Path> pagesBelow(String folder) throws IOException {
        try (Stream<Path> files = Files.walk(ROOT.resolve(folder))) {
            return files.filter(file -> file.toString().endsWith(".md"))
                    .sorted()
                    .toList();
        }
    }

    private static List<Word> words(List<String> lines) {
        List<Word> words = new ArrayList<>();
        for (String line : lines) {
            if (!line.isBlank() && !line.startsWith("#")) {
                String[] columns = line.split(" \\| ", 2);
                Pattern pattern = Pattern.compile("\\b(?:" + columns[0] + ")\\b", Pattern.CASE_INSENSITIVE);
                words.add(new Word(pattern, columns[1].toLowerCase(Locale.ROOT)));
            }
        }
        return words;
    }

    private static String place(Path page, PageText.Sentence sentence) {
        return ROOT.relativize(page) + ":" + sentence.line() + ": ";
    }
}
