package io.ppmr.os;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One line of {@code /proc/PID/maps}, or the first one of a mapping in {@code smaps}; proc_pid_maps(5). Immutable.
 *
 * @param from the first address
 * @param to the address behind the last one
 * @param permissions four letters, the last one {@code p} or {@code s}
 * @param device the file's device as stat(2) gives it; 0 where there is no file
 * @param inode the file's inode; 0 where there is no file
 * @param path what the kernel shows as the file, with a character from 0 to 255 for each byte; empty where there is
 *     none. It is the process's own choice: nothing is opened by it
 */
public record MappingLine(long from, long to, String permissions, long device, long inode, String path) {
    private static final Pattern LINE = Pattern.compile(
            "([0-9a-f]{1,16})-([0-9a-f]{1,16}) ([r-][w-][x-][ps]) [0-9a-f]{1,16}"
                    + " ([0-9a-f]{1,6}):([0-9a-f]{1,6}) (\\d{1,20})(?: +(.*))?",
            Pattern.DOTALL);

    private static final String LARGEST = "18446744073709551615";
    private static final int HEX = 16;
    private static final int FROM = 1;
    private static final int TO = 2;
    private static final int PERMISSIONS = 3;
    private static final int MAJOR = 4;
    private static final int MINOR = 5;
    private static final int INODE = 6;
    private static final int PATH = 7;

    /** Reads a line; empty where it is none of a mapping, as most of {@code smaps} are. */
    public static Optional<MappingLine> parse(String line) {
        Matcher fields = LINE.matcher(line);
        if (!fields.matches() || !isOf64Bits(fields.group(INODE))) {
            return Optional.empty();
        }
        return Optional.of(new MappingLine(
                Long.parseUnsignedLong(fields.group(FROM), HEX),
                Long.parseUnsignedLong(fields.group(TO), HEX),
                fields.group(PERMISSIONS),
                device(Long.parseLong(fields.group(MAJOR), HEX), Long.parseLong(fields.group(MINOR), HEX)),
                Long.parseUnsignedLong(fields.group(INODE)),
                fields.group(PATH) == null ? "" : fields.group(PATH)));
    }

    private static boolean isOf64Bits(String digits) {
        return digits.length() < LARGEST.length() || digits.compareTo(LARGEST) <= 0;
    }

    /** The number that stat(2) gives for a device, see makedev(3). */
    private static long device(long major, long minor) {
        return ((major & 0xfff) << 8) | ((major & ~0xfffL) << 32) | (minor & 0xff) | ((minor & ~0xffL) << 12);
    }

    /** Returns whether others that map the same file see what is written. */
    public boolean isShared() {
        return permissions.endsWith("s");
    }

    /** Returns whether a file is mapped that has a name in a directory. */
    public boolean hasFile() {
        return inode != 0 && path.startsWith("/");
    }

    /** Returns the name of its link in {@code /proc/PID/map_files}, which leads to the file whatever the path is. */
    public String link() {
        return Long.toHexString(from) + "-" + Long.toHexString(to);
    }
}
