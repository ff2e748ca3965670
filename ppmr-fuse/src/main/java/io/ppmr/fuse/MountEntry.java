package io.ppmr.fuse;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * One line of {@code /proc/self/mountinfo} (proc(5)). Reading that file never touches the mounted filesystems, so it
 * is safe beside a mount whose service is dead.
 *
 * @param deviceMinor minor number of the device, which for FUSE is the connection's number in fusectl
 * @param mountPoint where it is mounted, unescaped
 * @param type filesystem type, {@code fuse.ppmr} for ours
 * @param source what was mounted; for ours the fsname with the service's identity
 */
record MountEntry(int deviceMinor, String mountPoint, String type, String source) {
    static final String PPMR_TYPE = "fuse.ppmr";
    private static final Path MOUNTINFO = Path.of("/proc/self/mountinfo");
    private static final int DEVICE_FIELD = 2;
    private static final int MOUNT_POINT_FIELD = 4;
    private static final int FIRST_OPTIONAL_FIELD = 6;

    boolean isPpmr() {
        return PPMR_TYPE.equals(type);
    }

    /** The mounts at exactly this place, the lowest first. */
    static List<MountEntry> at(Path mountPoint) throws IOException {
        String wanted = mountPoint.toString();
        return Files.readAllLines(MOUNTINFO, StandardCharsets.UTF_8).stream()
                .map(MountEntry::parse)
                .filter(entry -> entry.mountPoint.equals(wanted))
                .toList();
    }

    /** Reads a line such as {@code 36 35 0:53 / /mnt rw - fuse.ppmr ppmr-source rw}. */
    static MountEntry parse(String line) {
        String[] fields = line.split(" ", -1);
        int separator = FIRST_OPTIONAL_FIELD;
        while (!"-".equals(fields[separator])) {
            separator++;
        }
        String device = fields[DEVICE_FIELD];
        return new MountEntry(
                Integer.parseInt(device.substring(device.indexOf(':') + 1)),
                unescape(fields[MOUNT_POINT_FIELD]),
                fields[separator + 1],
                unescape(fields[separator + 2]));
    }

    /** The kernel writes blank, tab, newline and backslash as a backslash and three octal digits. */
    private static String unescape(String field) {
        StringBuilder text = new StringBuilder(field.length());
        for (int i = 0; i < field.length(); i++) {
            if (field.charAt(i) == '\\' && i + 3 < field.length()) {
                text.append((char) Integer.parseInt(field.substring(i + 1, i + 4), 8));
                i += 3;
            } else {
                text.append(field.charAt(i));
            }
        }
        return text.toString();
    }
}
