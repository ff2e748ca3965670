package io.ppmr.checkpoint;

import java.io.BufferedReader;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import java.util.regex.Pattern;

/**
 * Reads the rows of a file in {@code /proc/sysvipc}, one after the other; sysvipc(5). It has the objects of all users,
 * up to 32,000 of each kind, so no row is kept. For one thread, which owns the reader.
 */
final class SystemVTable {
    private static final long LEAST = Integer.MIN_VALUE;
    private static final long MOST = 0xFFFF_FFFFL;
    /** Maximum number of characters of a number with its sign. A longer one exceeds {@link #MOST}. */
    private static final int MOST_DIGITS = 11;

    private static final Pattern BLANKS = Pattern.compile("\\s+");
    private static final Pattern NUMBER = Pattern.compile("-?[0-9]+");

    private final BufferedReader lines;
    private final List<String> columns;

    /** @param lines the file from its beginning; its first line names the columns */
    SystemVTable(BufferedReader lines) throws IOException {
        this.lines = lines;
        String header = lines.readLine();
        columns = header == null ? List.of() : words(header);
    }

    /** Returns the next row; null behind the last one. */
    Row next() throws IOException {
        String line = lines.readLine();
        return line == null ? null : new Row(columns, words(line));
    }

    private static List<String> words(String line) {
        return Arrays.asList(BLANKS.split(line.strip(), -1));
    }

    /** A row, with one object of a user. */
    record Row(List<String> columns, List<String> values) {

        /**
         * Returns a PID, a user or another number of 32 bits. Users above 2^31 are negative numbers. It is empty if the
         * row has no such column, or the column has no such number. One column's content never refuses a row.
         */
        OptionalInt number(String column) {
            int place = columns.indexOf(column);
            if (place < 0 || place >= values.size()) {
                return OptionalInt.empty();
            }
            String text = values.get(place);
            if (text.length() > MOST_DIGITS || !NUMBER.matcher(text).matches()) {
                return OptionalInt.empty();
            }
            long value = Long.parseLong(text);
            return value < LEAST || value > MOST ? OptionalInt.empty() : OptionalInt.of((int) value);
        }

        /** Returns true if a column has this number. */
        boolean has(String column, int number) {
            OptionalInt found = number(column);
            return found.isPresent() && found.getAsInt() == number;
        }
    }
}
