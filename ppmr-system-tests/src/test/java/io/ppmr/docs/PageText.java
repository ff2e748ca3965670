package io.ppmr.docs;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The sentences of a page in Markdown. Code blocks, headings, pictures and comments are left out. A link counts as its
 * text, and inline code as one word. Each cell of a table is a text of its own, in which a semicolon ends a piece as
 * well.
 */
final class PageText {
    private static final Pattern FENCE = Pattern.compile("\\s*(?:> )?```.*");
    private static final Pattern ITEM = Pattern.compile("\\s*(?:[-*]|\\d+\\.)\\s+(.*)");
    private static final Pattern COMMENT = Pattern.compile("<!--.*?-->", Pattern.DOTALL);
    private static final Pattern SENTENCE_END =
            Pattern.compile("(?<=[.!?])[\"')*_]*\\s+(?=[\"'(*_\\[]*(?:[A-Z0-9]|ppmr\\b))");
    private static final Pattern PIECE_END = Pattern.compile(SENTENCE_END.pattern() + "|;\\s+");
    private static final Pattern ENDED = Pattern.compile(".*[.!?:][\"')*_]*");
    private static final Pattern PARENTHESIS = Pattern.compile("(?<![\\p{L}\\p{N}])\\(");
    /** A cell ends at a bar that is neither escaped nor in code. */
    private static final Pattern CELL = Pattern.compile("(?:`[^`]*`|\\\\\\||[^|])*");

    /** A sentence with the line of the page on which it begins. */
    record Sentence(int line, String text, boolean isCell) {
        int words() {
            int words = 0;
            for (String word : text.split("\\s+", -1)) {
                if (word.chars().anyMatch(Character::isLetterOrDigit)) {
                    words++;
                }
            }
            return words;
        }

        /** Returns the number of remarks in parentheses. A section of a manual, as in kill(2), is none. */
        int parentheses() {
            return (int) PARENTHESIS.matcher(text).results().count();
        }

        /** True for a sentence of running text, which counts for the average. Cells and fragments do not count. */
        boolean isComplete() {
            return !isCell && ENDED.matcher(text).matches();
        }
    }

    private final List<Sentence> sentences = new ArrayList<>();
    private final List<String> layoutFaults = new ArrayList<>();
    private final StringBuilder block = new StringBuilder();
    private int blockLine;

    PageText(String markdown) {
        boolean isCode = false;
        int number = 0;
        String text =
                COMMENT.matcher(markdown).replaceAll(comment -> comment.group().replaceAll("[^\\n]", ""));
        for (String line : text.lines().toList()) {
            number++;
            if (FENCE.matcher(line).matches()) {
                isCode = !isCode;
                endBlock();
            } else if (!isCode) {
                add(number, line);
            }
        }
        endBlock();
    }

    List<Sentence> sentences() {
        return sentences;
    }

    /** Returns the lines that have two sentences, or end within one, with their numbers. */
    List<String> layoutFaults() {
        return layoutFaults;
    }

    private void add(int number, String line) {
        String stripped = line.replaceFirst("^> ?", "").strip();
        if (stripped.isEmpty() || stripped.startsWith("#") || stripped.startsWith("<")) {
            endBlock();
        } else if (stripped.startsWith("|")) {
            endBlock();
            addRow(number, stripped.substring(1));
        } else {
            Matcher item = ITEM.matcher(line);
            if (item.matches()) {
                endBlock();
                stripped = item.group(1).strip();
            }
            addProse(number, inline(stripped));
        }
    }

    private void addRow(int number, String row) {
        if (row.matches("[-:|\\s]+")) {
            return;
        }
        for (Matcher cell = CELL.matcher(row); cell.find(); ) {
            for (String sentence : PIECE_END.split(inline(cell.group().strip()), -1)) {
                if (!sentence.isBlank()) {
                    sentences.add(new Sentence(number, sentence, true));
                }
            }
        }
    }

    private void addProse(int number, String line) {
        if (SENTENCE_END.split(line, -1).length > 1) {
            layoutFaults.add(number + ": more than one sentence on the line");
        }
        if (block.isEmpty()) {
            blockLine = number;
        } else {
            if (!ENDED.matcher(block).matches()) {
                layoutFaults.add(number + ": the sentence began on an earlier line");
            }
            block.append(' ');
        }
        block.append(line);
    }

    private void endBlock() {
        for (String sentence : SENTENCE_END.split(block, -1)) {
            if (!sentence.isBlank()) {
                sentences.add(new Sentence(blockLine, sentence, false));
            }
        }
        block.setLength(0);
    }

    private static String inline(String text) {
        return text.replaceAll("!\\[[^\\]]*\\]\\([^)]*\\)", "")
                .replaceAll("``.*?``|`[^`]*`", "X")
                .replaceAll("\\[([^\\]]*)\\]\\([^)]*\\)", "$1")
                .replace("\\|", "|")
                .replace("**", "");
    }
}
