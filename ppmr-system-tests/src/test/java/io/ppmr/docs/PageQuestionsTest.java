package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/**
 * Each question of {@code docs/questions.txt} is answered by the sentence in that file, under the heading and on the
 * page in that file. The page is at most two links away from the README.
 */
class PageQuestionsTest {
    private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();
    private static final Pattern LINK = Pattern.compile("\\]\\(([^)#\\s]+)(?:#[^)\\s]*)?\\)");
    private static final int READERS = 4;
    private static final int QUESTIONS_OF_EACH = 10;

    private record Question(String reader, String question, String page, String heading, String sentence) {}

    @Test
    void shouldAnswerEachQuestionWhereTheListSays() throws IOException {
        Set<Path> near = near();
        List<String> missing = new ArrayList<>();
        for (Question question : questions()) {
            Path page = ROOT.resolve(question.page());
            if (!near.contains(page)) {
                missing.add(question.question() + ": more than two links from README.md: " + question.page());
            } else if (!section(page, question.heading()).contains(question.sentence())) {
                missing.add(question.question() + ": not in " + question.page() + ", \"" + question.heading() + "\": "
                        + question.sentence());
            }
        }
        assertEquals(List.of(), missing);
    }

    @Test
    void shouldHaveTenQuestionsOfEachReader() throws IOException {
        TreeMap<String, Integer> counts = new TreeMap<>();
        for (Question question : questions()) {
            counts.merge(question.reader(), 1, Integer::sum);
        }
        assertEquals(
                Collections.nCopies(READERS, QUESTIONS_OF_EACH), new ArrayList<>(counts.values()), counts.toString());
    }

    /** The pages that README.md leads to by one link or by two. */
    private static Set<Path> near() throws IOException {
        Path readme = ROOT.resolve("README.md");
        Set<Path> near = new TreeSet<>(Set.of(readme));
        for (Path page : links(readme)) {
            near.add(page);
            near.addAll(links(page));
        }
        return near;
    }

    private static Set<Path> links(Path page) throws IOException {
        Set<Path> pages = new TreeSet<>();
        if (page.toString().endsWith(".md")) {
            for (Matcher link = LINK.matcher(Files.readString(page)); link.find(); ) {
                Path file = page.resolveSibling(link.group(1)).normalize();
                if (Files.isRegularFile(file)) {
                    pages.add(file);
                }
            }
        }
        return pages;
    }

    /** Returns the text between a heading and the next one, or empty if the page has no such heading. */
    private static String section(Path page, String heading) throws IOException {
        StringBuilder section = new StringBuilder();
        boolean isInside = false;
        boolean isCode = false;
        for (String line : Files.readAllLines(page)) {
            isCode ^= line.strip().startsWith("```");
            if (!isCode && line.startsWith("#")) {
                isInside = line.replaceFirst("^#+ ", "").equals(heading);
            } else if (isInside) {
                section.append(line).append('\n');
            }
        }
        return section.toString();
    }

    private static List<Question> questions() throws IOException {
        List<Question> questions = new ArrayList<>();
        String reader = "";
        List<String> lines = Files.readAllLines(ROOT.resolve("docs/questions.txt"));
        for (int i = 0; i < lines.size(); i++) {
            String line = lines.get(i);
            if (line.startsWith("== ")) {
                reader = line.substring(3);
            } else if (line.startsWith("? ")) {
                questions.add(
                        new Question(reader, line.substring(2), lines.get(i + 1), lines.get(i + 2), lines.get(i + 3)));
            }
        }
        return questions;
    }
}
