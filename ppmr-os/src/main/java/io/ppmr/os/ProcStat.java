package io.ppmr.os;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
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
 * @param flags field 9, PF_* of the kernel
 * @param startTimeTicks field 22
 */
public record ProcStat(int pid, String name, char state, int parent, int session, long flags, long startTimeTicks) {
    /** PF_EXITING of the kernel. */
    private static final long EXITING = 0x4;

    /** Of ESRCH, where it has ended between the open and the read. */
    private static final String NO_PROCESS = "No such process";

    /** Reads one; empty if the process or thread is gone. */
    public static Optional<ProcStat> read(Path file) {
        try {
            return Optional.of(parse(Files.readString(file, StandardCharsets.ISO_8859_1)));
        } catch (NoSuchFileException gone) {
            // By now another process may have that PID: this one is gone all the same.
            return Optional.empty();
        } catch (IOException e) {
            if (NO_PROCESS.equals(e.getMessage()) || !Files.exists(file)) {
                return Optional.empty();
            }
            // One that cannot be looked at must not count as gone.
            throw new UncheckedIOException(file + " cannot be read; has this process files left to open?", e);
        }
    }

    /**
     * The PID namespace of a process, by its inode.
     *
     * @param process its PID, or "self"
     * @throws IOException if it is gone, or another user's
     */
    public static long pidNamespace(String process) throws IOException {
        String link =
                Files.readSymbolicLink(Path.of("/proc", process, "ns/pid")).toString();
        return Long.parseLong(link.substring(link.indexOf('[') + 1, link.length() - 1));
    }

    /**
     * Returns the value of a field of a file in {@code /proc} that has lines NAME: VALUE; empty if it has no such line.
     *
     * @param file such as {@code /proc/self/status}
     */
    public static Optional<String> field(Path file, String name) throws IOException {
        String start = name + ":";
        return Files.readAllLines(file, StandardCharsets.ISO_8859_1).stream()
                .filter(line -> line.startsWith(start))
                .findFirst()
                .map(line -> line.substring(start.length()).strip());
    }

    /**
     * Tells whether a process has a capability in effect.
     *
     * @param process its PID, or {@code self}
     * @param number as in capabilities(7)
     */
    public static boolean hasCapability(String process, int number) {
        try {
            return field(Path.of("/proc", process, "status"), "CapEff")
                    .map(set -> (Long.parseUnsignedLong(set, 16) >> number & 1) == 1)
                    .orElse(false);
        } catch (IOException e) {
            return false;
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
                Long.parseLong(rest[6]),
                Long.parseLong(rest[19]));
    }

    /** Ended, and not yet waited for. */
    public boolean isDead() {
        return state == 'Z' || state == 'X';
    }

    /** From the moment in which it begins to die; it may hang in the kernel for long after that. */
    public boolean isExiting() {
        return (flags & EXITING) != 0;
    }

    /** Stopped by a signal. A traced stop ({@code t}) is not that: it ends when its tracer does. */
    public boolean isStopped() {
        return state == 'T';
    }

    /** Runs, or waits for a processor alone. */
    public boolean isRunnable() {
        return state == 'R';
    }

    /** Stopped by a tracer, as CRIU stops what it dumps. */
    public boolean isTraced() {
        return state == 't';
    }
}
