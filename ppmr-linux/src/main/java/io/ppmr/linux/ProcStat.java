package io.ppmr.linux;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The relevant fields of {@code /proc/PID/stat}, or of a thread's; proc(5).
 *
 * @param pid field 1
 * @param name field 2, without its parentheses; at most 15 bytes
 * @param state field 3: R, S, D, T (stopped by a signal), t (stopped by a tracer), Z, X, I
 * @param parent field 4
 * @param session field 6
 * @param flags field 9, PF_* of the kernel
 * @param processorTicks the sum of fields 14 and 15: processor time in user space and in the kernel
 * @param startTimeTicks field 22
 */
public record ProcStat(
        int pid,
        String name,
        char state,
        int parent,
        int session,
        long flags,
        long processorTicks,
        long startTimeTicks) {
    /** Field numbers in proc(5). The state is field 3, after the name, its parenthesis and a blank. */
    private static final int PARENT = 4;

    private static final int SESSION = 6;
    private static final int FLAGS = 9;
    private static final int USER_TICKS = 14;
    private static final int KERNEL_TICKS = 15;
    private static final int LAST_FIELD = 22;
    private static final int FIELDS_FROM = 2;
    private static final int DECIMAL = 10;

    private static final Path LAST_CAPABILITY = Path.of("/proc/sys/kernel/cap_last_cap");
    private static final Pattern NAMESPACE = Pattern.compile("[a-z_]+:\\[(\\d{1,18})]");
    private static final Pattern KIB = Pattern.compile("[A-Za-z_]+:\\s+(\\d{1,18}) kB\\s*");

    /** USER_HZ is 100 everywhere. */
    private static final long TICK_NS = 10_000_000;

    /** PF_EXITING of the kernel. */
    private static final long EXITING = 0x4;

    /** Upper bound of such files, reached by a {@code status} with the maximum number of groups. */
    private static final int LONGEST_FILE = 1 << 20;

    /** The longest line has 52 numbers of 20 digits. */
    private static final int LINE_BYTES = 1200;

    private static final int ENOENT = 2;
    /** The process ended between the open and the read. */
    private static final int ESRCH = 3;

    /** Reads the fields; empty if the process or thread no longer exists. */
    public static Optional<ProcStat> read(Path file) {
        return read(file.toString());
    }

    /**
     * Reads the fields; empty if the process or thread no longer exists. Each scan reads all processes of a node, so
     * this method creates no path, channel or stream.
     */
    public static Optional<ProcStat> read(String file) {
        return read(file, LibC.CALLS.open(zeroTerminated(file), LibC.OPEN_CLOSE_ON_EXEC));
    }

    /**
     * Reads the fields; empty if the process or thread no longer exists.
     *
     * @param folder a descriptor of a directory
     * @param name the process or thread in it
     */
    static Optional<ProcStat> read(int folder, String name) {
        try {
            String file = name + "/stat";
            return read(file, ProcFiles.open(folder, file, LibC.OPEN_CLOSE_ON_EXEC));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Optional<ProcStat> read(String file, int descriptor) {
        if (descriptor < 0) {
            return goneOrUnreadable(file, LibC.errno());
        }
        byte[] line = new byte[LINE_BYTES];
        long lengthBytes;
        int errno;
        try {
            lengthBytes = LibC.CALLS.pread(descriptor, line, line.length, 0);
            errno = LibC.errno();
        } finally {
            LibC.CALLS.close(descriptor);
        }
        return lengthBytes < 0 ? goneOrUnreadable(file, errno) : Optional.of(parse(line, (int) lengthBytes));
    }

    private static Optional<ProcStat> goneOrUnreadable(String file, int errno) {
        // Another process may have that PID now. This one ended nevertheless.
        if (errno == ENOENT || errno == ESRCH) {
            return Optional.empty();
        }
        // An unreadable process must not count as ended.
        throw new UncheckedIOException(
                file + " cannot be read. Check this process's limit of open files",
                new IOException(LibC.describe(errno)));
    }

    private static byte[] zeroTerminated(String file) {
        byte[] name = file.getBytes(StandardCharsets.UTF_8);
        return Arrays.copyOf(name, name.length + 1);
    }

    /**
     * Returns the amount in a line such as {@code Swap: 4 kB} of a file in {@code /proc/PID}, in KiB.
     *
     * @throws IOException if the line does not contain such an amount
     */
    public static long kib(String line) throws IOException {
        Matcher amount = KIB.matcher(line);
        if (!amount.matches()) {
            throw new IOException("a line of /proc contains no amount of memory in a known form: '" + line + "'");
        }
        return Long.parseLong(amount.group(1));
    }

    /**
     * The PID namespace of a process, by its inode.
     *
     * @param process its PID, or "self"
     * @throws IOException if the process no longer exists, or belongs to another user
     */
    public static long pidNamespace(String process) throws IOException {
        return namespace(Path.of("/proc", process), "pid");
    }

    /**
     * A namespace of a process, by its inode.
     *
     * @param process its directory in {@code /proc}
     * @param kind the kernel's name for it, such as {@code mnt}; namespaces(7)
     * @throws NoSuchFileException if the process no longer exists, or the kernel has no such namespaces
     * @throws IOException if the process belongs to another user
     */
    public static long namespace(Path process, String kind) throws IOException {
        Path file = process.resolve("ns").resolve(kind);
        // For a process that is exiting the kernel returns ESRCH, which the JDK does not map to NoSuchFileException.
        String link = ProcFiles.link(file.toString()).orElseThrow(() -> new NoSuchFileException(file.toString()));
        Matcher number = NAMESPACE.matcher(link);
        if (!number.matches()) {
            throw new IOException("a namespace of " + process + " has a name of an unknown form: '" + link + "'");
        }
        return Long.parseLong(number.group(1));
    }

    /**
     * Returns the value of a field of a file in {@code /proc} that has lines NAME: VALUE; empty if it has no such line.
     *
     * @param file such as {@code /proc/self/status}
     * @throws NoSuchFileException if the file's process no longer exists
     */
    public static Optional<String> field(Path file, String name) throws IOException {
        String text = ProcFiles.text(file.toString(), LONGEST_FILE)
                .orElseThrow(() -> new NoSuchFileException(file.toString()));
        return new ProcFields(text).value(name);
    }

    /**
     * Returns whether a process has a capability in effect.
     *
     * @param process its PID, or {@code self}
     * @param number its number in capabilities(7)
     */
    public static boolean hasCapability(String process, int number) {
        return (capabilities(process, "CapEff") >> number & 1) == 1;
    }

    /**
     * Returns a capability set of a process's first thread, with a bit for each number in capabilities(7); 0 if the
     * process no longer exists.
     *
     * @param process its PID, or {@code self}
     * @param set the set's name in {@code /proc/PID/status}, such as {@code CapBnd}
     */
    public static long capabilities(String process, String set) {
        try {
            return field(Path.of("/proc", process, "status"), set)
                    .map(value -> Long.parseUnsignedLong(value, 16))
                    .orElse(0L);
        } catch (IOException e) {
            return 0;
        }
    }

    /**
     * Returns the last capability of this kernel, by its number in capabilities(7).
     *
     * <p>The file returns nothing to a second read, so one read must return all of it. {@code Files.readString} does
     * not do that for a file of size 0: it would return only the first digit.
     */
    public static int lastCapability() throws IOException {
        return Integer.parseInt(Files.readAllLines(LAST_CAPABILITY, StandardCharsets.ISO_8859_1)
                .get(0)
                .strip());
    }

    static ProcStat parse(String line) {
        byte[] bytes = line.getBytes(StandardCharsets.ISO_8859_1);
        return parse(bytes, bytes.length);
    }

    private static ProcStat parse(byte[] line, int lengthBytes) {
        // The name may contain blanks and parentheses. The last closing parenthesis ends it.
        int open = after('(', line, 0, lengthBytes) - 1;
        int close = lengthBytes - 1;
        while (close > open && line[close] != ')') {
            close--;
        }
        if (close <= open) {
            throw notOne(line, lengthBytes);
        }
        long[] fields = new long[LAST_FIELD + 1];
        int at = close + FIELDS_FROM;
        for (int field = PARENT; field <= LAST_FIELD; field++) {
            at = after(' ', line, at, lengthBytes);
            fields[field] = number(line, at, lengthBytes);
        }
        return new ProcStat(
                (int) number(line, 0, lengthBytes),
                new String(line, open + 1, close - open - 1, StandardCharsets.ISO_8859_1),
                (char) line[close + FIELDS_FROM],
                (int) fields[PARENT],
                (int) fields[SESSION],
                fields[FLAGS],
                fields[USER_TICKS] + fields[KERNEL_TICKS],
                fields[LAST_FIELD]);
    }

    private static int after(char wanted, byte[] line, int from, int lengthBytes) {
        int at = from;
        while (at < lengthBytes && line[at] != wanted) {
            at++;
        }
        if (at + 1 >= lengthBytes) {
            throw notOne(line, lengthBytes);
        }
        return at + 1;
    }

    /** Parses the decimal number at {@code from}. Numbers that exceed a long, such as in field 13, wrap around. */
    private static long number(byte[] line, int from, int lengthBytes) {
        boolean negative = line[from] == '-';
        int at = negative ? from + 1 : from;
        int first = at;
        long value = 0;
        while (at < lengthBytes && line[at] >= '0' && line[at] <= '9') {
            value = value * DECIMAL + line[at] - '0';
            at++;
        }
        if (at == first) {
            throw notOne(line, lengthBytes);
        }
        return negative ? -value : value;
    }

    private static IllegalArgumentException notOne(byte[] line, int lengthBytes) {
        return new IllegalArgumentException(
                "not a stat line of /proc: '" + new String(line, 0, lengthBytes, StandardCharsets.ISO_8859_1) + "'");
    }

    /** Returns the processor time in nanoseconds. */
    public long processorNs() {
        return processorTicks * TICK_NS;
    }

    /** Returns true if the process ended and its parent did not collect it yet. */
    public boolean isDead() {
        return state == 'Z' || state == 'X';
    }

    /** Returns true from the beginning of the exit on. An exiting process may hang in the kernel for a long time. */
    public boolean isExiting() {
        return (flags & EXITING) != 0;
    }

    /**
     * Returns true if a signal stopped the process. A traced stop ({@code t}) does not count, because it ends with the
     * tracer.
     */
    public boolean isStopped() {
        return state == 'T';
    }

    /** Returns true if the process runs, or only waits for a processor. */
    public boolean isRunnable() {
        return state == 'R';
    }

    /** Returns true if a tracer stopped the process, as CRIU does during a dump. */
    public boolean isTraced() {
        return state == 't';
    }
}
