package io.ppmr.linux;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One line of {@code /proc/PID/maps}, or the first line of a mapping in {@code smaps}; proc_pid_maps(5). Immutable.
 *
 * @param from the first address
 * @param to the address after the last one
 * @param permissions four letters, the last one {@code p} or {@code s}
 * @param device the file's device as stat(2) returns it; 0 if there is no file
 * @param inode the file's inode; 0 if there is no file
 * @param path the file's name as the kernel shows it, with a character from 0 to 255 for each byte; empty if there is
 *     none. The process chooses it, so no file is opened by it
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

    /** Parses a line; empty if it does not begin a mapping, as most lines of {@code smaps} do not. */
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

    /** Returns the number that stat(2) has for a device; see makedev(3). */
    private static long device(long major, long minor) {
        return ((major & 0xfff) << 8) | ((major & ~0xfffL) << 32) | (minor & 0xff) | ((minor & ~0xffL) << 12);
    }

    /** Returns whether other mappings of the same file see written bytes. */
    public boolean isShared() {
        return permissions.endsWith("s");
    }

    /** Returns whether the mapping is of a file that has a name in a directory. */
    public boolean hasFile() {
        return inode != 0 && path.startsWith("/");
    }

    /**
     * Returns the name of the mapping's link in {@code /proc/PID/map_files}, which leads to the file even if the path
     * is wrong.
     */
    public String link() {
        return Long.toHexString(from) + "-" + Long.toHexString(to);
    }
}
