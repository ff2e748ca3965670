package io.ppmr.linux;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * One line of {@code /proc/PID/mountinfo}; proc_pid_mountinfo(5). Reading that file never touches the mounted
 * filesystems, so it is safe beside a mount whose service is dead.
 *
 * <p>Users have their own mounts there (fusermount), at places with arbitrary bytes in their names. So names are text
 * with a character from 0 to 255 for each byte, and not a {@link Path}, which cannot represent every name. {@link
 * #bytesOf} converts a path for comparison. A line that cannot be parsed belongs to another mount and is skipped.
 * Immutable.
 *
 * @param deviceMinor minor number of the device, which for FUSE is the connection's number in fusectl
 * @param root the mounted part of the filesystem
 * @param mountPoint the unescaped mount point
 * @param type filesystem type, {@code fuse.ppmr} for this project's mounts
 * @param source the unescaped source; for this project's mounts the fsname with the service's identity
 */
public record MountEntry(int deviceMinor, String root, String mountPoint, String type, String source) {
    private static final int DEVICE_FIELD = 2;
    private static final int ROOT_FIELD = 3;
    private static final int MOUNT_POINT_FIELD = 4;
    private static final int FIRST_OPTIONAL_FIELD = 6;
    private static final int OCTAL = 8;
    private static final int ESCAPE_CHARS = 4;

    /**
     * Returns the mounts that a process sees, each after those that it covers.
     *
     * @param process its directory in {@code /proc}
     */
    public static List<MountEntry> of(Path process) throws IOException {
        List<MountEntry> entries = new ArrayList<>();
        for (String line : Files.readAllLines(process.resolve("mountinfo"), StandardCharsets.ISO_8859_1)) {
            parse(line).ifPresent(entries::add);
        }
        return entries;
    }

    /** Returns the mounts of this process at exactly this mount point, the lowest first. */
    public static List<MountEntry> at(Path place) throws IOException {
        String wanted = bytesOf(place);
        return of(Path.of("/proc/self")).stream()
                .filter(entry -> entry.mountPoint.equals(wanted))
                .toList();
    }

    /** Returns the name of a path in the form of the entries. */
    public static String bytesOf(Path path) {
        return new String(path.toString().getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1);
    }

    /**
     * Returns whether a path is the mount point or lies below it.
     *
     * @param path in the form of {@link #bytesOf}, absolute
     */
    public boolean contains(String path) {
        return path.startsWith(mountPoint)
                && (mountPoint.endsWith("/")
                        || path.length() == mountPoint.length()
                        || path.charAt(mountPoint.length()) == '/');
    }

    /** Parses a line such as {@code 36 35 0:53 / /mnt rw - fuse.ppmr ppmr-source rw}; empty if it has another form. */
    public static Optional<MountEntry> parse(String line) {
        String[] fields = line.split(" ", -1);
        int separator = FIRST_OPTIONAL_FIELD;
        while (separator < fields.length && !"-".equals(fields[separator])) {
            separator++;
        }
        if (separator + 2 >= fields.length || !fields[DEVICE_FIELD].matches("\\d{1,9}:\\d{1,9}")) {
            return Optional.empty();
        }
        String device = fields[DEVICE_FIELD];
        return Optional.of(new MountEntry(
                Integer.parseInt(device.substring(device.indexOf(':') + 1)),
                unescape(fields[ROOT_FIELD]),
                unescape(fields[MOUNT_POINT_FIELD]),
                fields[separator + 1],
                unescape(fields[separator + 2])));
    }

    /** The kernel writes blank, tab, newline and backslash as a backslash and three octal digits. */
    private static String unescape(String field) {
        StringBuilder text = new StringBuilder(field.length());
        int at = 0;
        while (at < field.length()) {
            if (isEscape(field, at)) {
                text.append((char) Integer.parseInt(field, at + 1, at + ESCAPE_CHARS, OCTAL));
                at += ESCAPE_CHARS;
            } else {
                text.append(field.charAt(at));
                at++;
            }
        }
        return text.toString();
    }

    private static boolean isEscape(String field, int at) {
        if (field.charAt(at) != '\\' || at + ESCAPE_CHARS > field.length()) {
            return false;
        }
        boolean isByte = field.charAt(at + 1) <= '3';
        for (int i = at + 1; i < at + ESCAPE_CHARS; i++) {
            isByte &= field.charAt(i) >= '0' && field.charAt(i) < '0' + OCTAL;
        }
        return isByte;
    }
}
