package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The pages name only tests that the tree has. */
class PageNamesTest {
    private static final Path ROOT = Path.of(System.getProperty("ppmr.home"));
    private static final Pattern TEST_CLASS = Pattern.compile("\\b[A-Z]\\w*[a-z](?:Test|IT|InGuest)\\b");
    private static final Pattern TEST_METHOD = Pattern.compile("\\bshould[A-Z]\\w+\\b");
    private static final Pattern BUILT = Pattern.compile("(?:[^/]+/)?target/");
    private static final Pattern CODE = Pattern.compile("`([^`]+)`");

    /** Lists the files below a folder, without what a build has made. */
    private static List<Path> below(Path folder, String end) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(file -> file.toString().endsWith(end))
                    .filter(file ->
                            !BUILT.matcher(ROOT.relativize(file).toString()).lookingAt())
                    .sorted()
                    .toList();
        }
    }

    private static Set<String> found(Pattern pattern, String text) {
        Set<String> all = new TreeSet<>();
        Matcher matcher = pattern.matcher(text);
        while (matcher.find()) {
            all.add(matcher.group());
        }
        return all;
    }

    @Test
    void shouldNameOnlyTestsThatExist() throws IOException {
        OptionalParts.assumeAll();
        List<Path> sources = below(ROOT, ".java");
        Set<String> classes = sources.stream()
                .map(file -> file.getFileName().toString().replace(".java", ""))
                .collect(Collectors.toSet());
        Set<String> methods = new TreeSet<>();
        for (Path file : sources) {
            methods.addAll(found(TEST_METHOD, Files.readString(file)));
        }
        List<String> missing = new ArrayList<>();
        int named = 0;
        for (Path page : below(ROOT, ".md")) {
            Matcher code = CODE.matcher(Files.readString(page));
            while (code.find()) {
                for (String name : found(TEST_CLASS, code.group(1))) {
                    named++;
                    if (!classes.contains(name)) {
                        missing.add(ROOT.relativize(page) + ": " + name);
                    }
                }
                for (String name : found(TEST_METHOD, code.group(1))) {
                    if (!methods.contains(name)) {
                        missing.add(ROOT.relativize(page) + ": " + name);
                    }
                }
            }
        }
        assertEquals(List.of(), missing);
        assertTrue(named > 0, "the pages name tests");
    }
}
