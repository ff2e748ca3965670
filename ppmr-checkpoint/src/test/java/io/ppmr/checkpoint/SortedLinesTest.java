package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.ppmr.checkpoint.SortedLines.Appender;
import io.ppmr.checkpoint.SortedLines.Cursor;
import io.ppmr.checkpoint.SortedLines.Sorter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Stream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.CharRange;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import net.jqwik.api.constraints.StringLength;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SortedLinesTest {
    private static List<String> read(SortedLines lines) throws IOException {
        return read(lines, "");
    }

    private static List<String> read(SortedLines lines, String from) throws IOException {
        List<String> read = new ArrayList<>();
        try (Cursor cursor = lines.open(from)) {
            for (String line = cursor.next(); line != null; line = cursor.next()) {
                read.add(line);
            }
            assertEquals(null, cursor.next(), "it stays at the end");
        }
        return read;
    }

    private static long files(Path directory) throws IOException {
        try (Stream<Path> found = Files.list(directory)) {
            return found.count();
        }
    }

    @Property(tries = 200)
    void shouldGiveEachLineOnceAndInOrderWhateverStaysInMemory(
            @ForAll @Size(max = 60) List<@StringLength(max = 12) String> lines,
            @ForAll @IntRange(min = 0, max = 1500) int memoryChars)
            throws IOException {
        Path directory = Files.createTempDirectory("ppmr-sorted-lines");
        try {
            Sorter sorter = new Sorter(directory, "lines", memoryChars);
            for (String line : lines) {
                sorter.add(line);
            }
            try (SortedLines sorted = sorter.sorted()) {
                assertEquals(List.copyOf(new TreeSet<>(lines)), read(sorted));
                assertEquals(List.copyOf(new TreeSet<>(lines)), read(sorted), "it can be read again");
            }
            assertEquals(0, files(directory));
        } finally {
            Files.delete(directory);
        }
    }

    /** Long lines with equal beginnings, so that there are marks among them. */
    @Property(tries = 50)
    void shouldGiveTheLinesFromATextOnWhereverTheyLie(
            @ForAll @Size(min = 1, max = 60) List<@StringLength(max = 3) @CharRange(from = 'a', to = 'c') String> lines,
            @ForAll @StringLength(max = 3) @CharRange(from = 'a', to = 'c') String from,
            @ForAll boolean isLong)
            throws IOException {
        Path directory = Files.createTempDirectory("ppmr-sorted-lines");
        TreeSet<String> all = new TreeSet<>();
        String end = "b".repeat(isLong ? 15_000 : 1);
        for (String line : lines) {
            all.add(line + end);
        }
        String text = isLong && from.length() == 3 ? from + end : from;
        try {
            Sorter sorter = new Sorter(directory, "lines", 100_000);
            for (String line : lines) {
                sorter.add(line + end);
            }
            Appender appender = new Appender(directory, "appended");
            for (String line : all) {
                appender.add(line);
            }
            try (SortedLines sorted = sorter.sorted();
                    SortedLines appended = appender.sorted()) {
                assertEquals(List.copyOf(all.tailSet(text)), read(sorted, text));
                assertEquals(List.copyOf(all.tailSet(text)), read(appended, text));
            }
        } finally {
            Files.delete(directory);
        }
    }

    @Test
    void shouldLeaveNothingWhenTheSorterIsGivenUp(@TempDir Path directory) throws IOException {
        try (Sorter sorter = new Sorter(directory, "lines", 0)) {
            sorter.add("one");
            sorter.add("two");
            assertEquals(2, files(directory));
        }
        assertEquals(0, files(directory));
    }

    @Test
    void shouldTakeLinesThatComeInOrderAndNoOthers(@TempDir Path directory) throws IOException {
        try (Appender appender = new Appender(directory, "lines")) {
            appender.add("a");
            appender.add("a\0");
            appender.add("a b\nc");
            assertThrows(IllegalArgumentException.class, () -> appender.add("a b"));
            assertThrows(IllegalArgumentException.class, () -> appender.add("a b\nc"));
            try (SortedLines lines = appender.sorted()) {
                assertEquals(List.of("a", "a\0", "a b\nc"), read(lines));
            }
        }
        assertEquals(0, files(directory));
    }
}
