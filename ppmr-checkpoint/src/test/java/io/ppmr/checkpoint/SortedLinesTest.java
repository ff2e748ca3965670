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
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import net.jqwik.api.constraints.StringLength;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SortedLinesTest {
    private static List<String> read(SortedLines lines) throws IOException {
        List<String> read = new ArrayList<>();
        try (Cursor cursor = lines.open()) {
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
