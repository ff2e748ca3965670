package io.ppmr.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Each message that a page quotes is one that the sources write, and each check of doctor is in the reference. */
class QuotedMessagesTest {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    /** The placeholders of a page for values, and the texts of the kernel, which no source has. */
    private static final Pattern VALUE = Pattern.compile("\\b(?:N|M|P|F|A|NAME|DIR|ADDRESS|REASON)\\b|\\.\\.\\."
            + "|Transport endpoint is not connected|Connection refused");

    private static final Pattern CODE = Pattern.compile("`([^`]+)`");
    /** A value between two literals. */
    private static final Pattern JOINT = Pattern.compile("\"\\s*\\+(?:(?!;\\s)[^\"])*?\\+\\s*\"");

    private static final int LEAST_QUOTES = 35;
    /** A finding with the name of its check: a literal or a constant. */
    private static final Pattern FINDING =
            Pattern.compile("Finding\\s*\\.(?:ok|warn|fail)\\(\\s*(?:\"([a-z-]+)\"|([A-Z_]+)\\b)");

    private static final int LEAST_CHECKS = 20;

    private static List<String> sources;

    @BeforeAll
    static void readSources() throws IOException {
        List<Path> files = new ArrayList<>();
        try (Stream<Path> modules = Files.list(HOME)) {
            for (Path module : modules.map(one -> one.resolve("src/main"))
                    .filter(Files::isDirectory)
                    .toList()) {
                try (Stream<Path> all = Files.walk(module)) {
                    all.filter(file -> file.toString().matches(".*\\.(?:java|c|sh)"))
                            .forEach(files::add);
                }
            }
        }
        sources = new ArrayList<>();
        for (Path file : files) {
            sources.add(joined(Files.readString(file)));
        }
    }

    /** Returns a source in which each message is one literal, with an ellipsis for each value. */
    private static String joined(String source) {
        String whole = source.replaceAll("\"\\s*\\+\\s*\"", "");
        return JOINT.matcher(whole)
                .replaceAll("...")
                .replace("{}", "...")
                .replace("%d", "...")
                .replace("%s", "...");
    }

    private static boolean isWritten(String quote) {
        List<String> pieces = Arrays.stream(VALUE.split(quote, -1))
                .map(String::strip)
                .filter(piece -> !piece.isEmpty())
                .toList();
        Pattern pattern = Pattern.compile(pieces.stream().map(Pattern::quote).collect(Collectors.joining("[^\"]*")));
        return pieces.isEmpty()
                || sources.stream().anyMatch(source -> pattern.matcher(source).find());
    }

    /** Returns the first cells of the tables of a page whose first column has this title. */
    private static List<String> cells(String page, String title) throws IOException {
        List<String> cells = new ArrayList<>();
        boolean isIn = false;
        for (String line : Files.readString(HOME.resolve(page)).lines().toList()) {
            if (!line.startsWith("|")) {
                isIn = false;
                continue;
            }
            String cell = line.substring(1, line.indexOf('|', 1)).strip();
            if (cell.equals(title)) {
                isIn = true;
            } else if (isIn && !cell.startsWith("---")) {
                cells.add(cell);
            }
        }
        return cells;
    }

    @Test
    void shouldBeWrittenBySourcesWhenAPageQuotesAMessage() throws IOException {
        OptionalParts.assumeAll();
        Map<String, String> quotes = new LinkedHashMap<>();
        for (String cell : cells("docs/admin/troubleshooting.md", "Symptom")) {
            for (Matcher code = CODE.matcher(cell); code.find(); ) {
                quotes.put(code.group(1), "docs/admin/troubleshooting.md");
            }
        }
        for (String cell : cells("docs/admin/job-checkpoints.md", "Message")) {
            quotes.put(cell, "docs/admin/job-checkpoints.md");
        }
        assertTrue(quotes.size() >= LEAST_QUOTES, "quotes are missing: " + quotes);
        List<String> unknown = quotes.entrySet().stream()
                .filter(quote -> !isWritten(quote.getKey()))
                .map(quote -> quote.getValue() + ": " + quote.getKey())
                .toList();
        assertEquals(List.of(), unknown, "no source writes these");
    }

    @Test
    void shouldBeInTheReferenceWhenDoctorHasACheck() throws IOException {
        OptionalParts.assumeAll();
        String page = Files.readString(HOME.resolve("docs/reference/doctor.md"));
        Set<String> checks = new TreeSet<>();
        for (String source : sources) {
            for (Matcher finding = FINDING.matcher(source); finding.find(); ) {
                checks.add(finding.group(1) != null ? finding.group(1) : valueOf(finding.group(2), source));
            }
        }
        assertTrue(checks.size() >= LEAST_CHECKS, "checks are missing: " + checks);
        checks.removeIf(check -> page.contains("`" + check + "`"));
        assertEquals(Set.of(), checks, "docs/reference/doctor.md lacks checks");
    }

    private static String valueOf(String constant, String source) {
        Matcher value =
                Pattern.compile("String " + constant + " = \"([^\"]*)\"").matcher(source);
        assertTrue(value.find(), constant);
        return value.group(1);
    }
}
