package io.ppmr.system;

import io.ppmr.protocol.control.ControlMessage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * The table of faults (docs/internals/transaction.md has it, too): what fails, at which moment of a migration, and what
 * is promised then. {@link FaultMatrixIT} brings each of them about.
 */
final class FaultMatrix {
    /**
     * A row is a fault, and a column is its moment. In the first, half of rank 1's image is written. In the second,
     * everything arrived and its restart will make the copy next. In the others, a message of the commit is on its way.
     * Bracketed cases are only in the long run of the tests.
     */
    static final String TABLE = """
            | Fault | write | restart | Prepared | Confirm | StillHeld | Commit | Committed |
            |---|---|---|---|---|---|---|---|
            | source service | here | (here) | (here) | (here) | here | there | (there) |
            | source service, message heard | - | - | - | (here) | - | there | - |
            | target service | (here) | here | here | (here) | (here) | there | (there) |
            | target service, message heard | - | - | (here) | - | there | - | (there) |
            | both services | - | - | (here) | - | - | (there) | - |
            | checkpointer, nothing written | here | - | - | - | - | - | - |
            | checkpointer | here | - | - | - | - | - | - |
            | checkpointer, all written | (here) | - | - | - | - | - | - |
            | restart command | here | here | - | - | - | - | - |
            | restart command, copy made | - | here | - | - | - | - | - |
            | network | here | (here) | here | (here) | (here) | there | (there) |
            | network, shorter than the silence limit | - | - | there | (there) | (there) | (there) | there |
            | source node, no proof | (nowhere) | (nowhere) | held | (held) | (held) | (held) | (there) |
            | cable | (here) | here | - | - | - | - | - |
            | source node | (nowhere) | (nowhere) | there | (there) | (there) | there | (there) |
            | network, fence fails | - | - | here | - | - | (there) | - |
            | network, fence works | - | - | (there) | there | - | - | - |
            | target node | (here) | (here) | (here) | (here) | here | nowhere | (nowhere) |
            | target node, no proof | - | held | (held) | - | (held) | - | - |
            | restart command, with a spare node | - | there | - | - | - | - | - |
            | checkpointer in the second attempt | (here) | - | - | - | - | - | - |
            | source node, two targets | (nowhere) | nowhere | there | (there) | (there) | there | (there) |
            | source node, no proof, two targets | - | - | (held) | - | - | (there) | - |
            | network to the first, two targets | - | - | here | - | - | - | - |
            | target node, two targets | - | - | (here) | (here) | - | - | - |
            """;

    private FaultMatrix() {}

    /** A moment. For the moments of the commit it has the message that is on its way. */
    enum Moment {
        WRITE(null),
        RESTART(null),
        PREPARED(ControlMessage.Prepared.class),
        CONFIRM(ControlMessage.Confirm.class),
        STILL_HELD(ControlMessage.StillHeld.class),
        COMMIT(ControlMessage.Commit.class),
        COMMITTED(ControlMessage.Committed.class);

        private final Class<? extends ControlMessage> message;

        Moment(Class<? extends ControlMessage> message) {
            this.message = message;
        }

        Optional<Class<? extends ControlMessage>> message() {
            return Optional.ofNullable(message);
        }

        /** The one that a column is about. */
        static Moment of(String column) {
            return Arrays.stream(values())
                    .filter(moment -> moment.name().replace("_", "").equalsIgnoreCase(column))
                    .findFirst()
                    .orElseThrow();
        }
    }

    /** The promised end of a case. */
    enum End {
        /** The originals continue, and no copy is left. */
        HERE,
        /** The copies continue, and no original is left. */
        THERE,
        /** The remaining processes are stopped, and a service reports that. */
        HELD,
        /** No process remains. In the named cases the computation is lost. */
        NOWHERE
    }

    /** A cell of the table. */
    record Case(String fault, Moment moment, End end, boolean onlyInTheLongRun) {
        @Override
        public String toString() {
            return fault + " at " + moment + ": " + end;
        }
    }

    /** A cell of a table of this kind that is not empty: rows are faults, columns are moments. */
    record Cell(String row, String column, End end, boolean onlyInTheLongRun) {
        @Override
        public String toString() {
            return row + " at " + column + ": " + end;
        }
    }

    /** The cases, in the table's order. */
    static List<Case> cases() {
        return cells(TABLE).stream()
                .map(cell -> new Case(cell.row(), Moment.of(cell.column()), cell.end(), cell.onlyInTheLongRun()))
                .toList();
    }

    /** Reads a table. Bracketed cases are only in the long run of the tests. */
    static List<Cell> cells(String table) {
        List<List<String>> rows = table.lines()
                .map(line ->
                        Arrays.stream(line.split("\\|", -1)).map(String::strip).toList())
                .toList();
        List<String> head = rows.get(0);
        List<Cell> cells = new ArrayList<>();
        for (List<String> row : rows.subList(2, rows.size())) {
            for (int column = 2; column < head.size() - 1; column++) {
                String cell = row.get(column);
                if (!cell.equals("-")) {
                    boolean longRun = cell.startsWith("(");
                    String end = longRun ? cell.substring(1, cell.length() - 1) : cell;
                    cells.add(
                            new Cell(row.get(1), head.get(column), End.valueOf(end.toUpperCase(Locale.ROOT)), longRun));
                }
            }
        }
        return cells;
    }
}
