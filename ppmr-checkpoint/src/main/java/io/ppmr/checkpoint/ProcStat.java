package io.ppmr.checkpoint;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/**
 * The fields of {@code /proc/PID/stat} (or of one thread's) that matter here; proc(5).
 *
 * @param pid field 1
 * @param name field 2, without its parentheses; at most 15 bytes
 * @param state field 3: R, S, D, T (stopped by a signal), t (stopped by a tracer), Z, X, I
 * @param parent field 4
 * @param session field 6
 * @param startTimeTicks field 22
 */
record ProcStat(int pid, String name, char state, int parent, int session, long startTimeTicks) {

    /** Reads one; empty if the process or thread is gone. */
    static Optional<ProcStat> read(Path file) {
        try {
            return Optional.of(parse(Files.readString(file, StandardCharsets.ISO_8859_1)));
        } catch (IOException gone) {
            // ENOENT before the open or ESRCH after it; there is no third reason for one's own /proc.
            return Optional.empty();
        }
    }

    static ProcStat parse(String line) {
        // The name may hold blanks and parentheses; the last closing one ends it.
        int open = line.indexOf('(');
        int close = line.lastIndexOf(')');
        if (open < 0 || close < open) {
            throw new IllegalArgumentException("not a stat line of /proc: '" + line + "'");
        }
        String[] rest = line.substring(close + 2).trim().split(" ", -1);
        return new ProcStat(
                Integer.parseInt(line.substring(0, open).trim()),
                line.substring(open + 1, close),
                rest[0].charAt(0),
                Integer.parseInt(rest[1]),
                Integer.parseInt(rest[3]),
                Long.parseLong(rest[19]));
    }

    boolean isDead() {
        return state == 'Z' || state == 'X';
    }

    /** Stopped by a signal. A traced stop ({@code t}) is not that: it ends when its tracer does. */
    boolean isStopped() {
        return state == 'T';
    }
}
