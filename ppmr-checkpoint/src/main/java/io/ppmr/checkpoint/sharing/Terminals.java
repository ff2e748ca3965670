package io.ppmr.checkpoint.sharing;

import io.ppmr.checkpoint.sharing.KernelObject.ObjectKind;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFiles.FileStatus;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Identifies the terminal of a device file. Both ends of a pseudoterminal have its number in its mount of devpts,
 * pts(4), of which each container has one. For one scan and one thread.
 */
final class Terminals {
    private static final int MOST_BYTES = 16 << 20;
    private static final int PSEUDO = 136;
    private static final int LAST_PSEUDO = 143;
    private static final int AUXILIARY = 5;
    private static final int CONTROLLING = 0;
    private static final int MASTERS = 2;
    /** Virtual consoles, serial lines, USB, hypervisors' consoles: devices.txt of the kernel. */
    private static final Set<Integer> OTHERS = Set.of(4, 166, 188, 204, 229);

    /** Field 7 of proc_pid_stat(5) is the fifth behind the name. */
    private static final int TERMINAL_FIELD = 4;

    private static final int MAJOR_SHIFT = 8;
    private static final int MAJOR_MASK = 0xfff;
    private static final int LOW_MINOR = 0xff;
    private static final int HIGH_MINOR_SHIFT = 12;
    private static final int HIGH_MINOR = 0xfff00;
    private static final int STAT_BYTES = 4096;

    private final Map<String, String> mounts = new HashMap<>();

    /** Returns true if each open of the device makes a pseudoterminal. */
    static boolean isMaster(FileStatus status) {
        return status.major() == AUXILIARY && status.minor() == MASTERS;
    }

    static boolean isTerminal(FileStatus status) {
        return status.isCharacterDevice()
                && (isPseudo(status.major()) || status.major() == AUXILIARY || OTHERS.contains(status.major()));
    }

    private static boolean isPseudo(int major) {
        return major >= PSEUDO && major <= LAST_PSEUDO;
    }

    /** Returns the terminal of a device file that a process has open, or empty if it is unknown or gone. */
    Optional<KernelObject> of(int pid, FileStatus status, Optional<DescriptorInfo> info) throws IOException {
        if (isMaster(status)) {
            Optional<String> index = info.flatMap(lines -> lines.value("tty-index:"));
            return index.isEmpty()
                    ? Optional.empty()
                    : Optional.of(new KernelObject(
                            ObjectKind.TERMINAL_MASTER, mount(pid, status.device()) + " " + index.get()));
        }
        if (isPseudo(status.major())) {
            return Optional.of(new KernelObject(ObjectKind.TERMINAL, status.device() + " " + status.minor()));
        }
        if (status.major() == AUXILIARY && status.minor() == CONTROLLING) {
            return controlling(pid);
        }
        return Optional.of(new KernelObject(ObjectKind.TERMINAL, "device " + status.major() + ":" + status.minor()));
    }

    /** Returns the terminal that {@code /dev/tty} means in a process. */
    private Optional<KernelObject> controlling(int pid) throws IOException {
        Optional<String> stat = ProcFiles.text("/proc/" + pid + "/stat", STAT_BYTES);
        if (stat.isEmpty()) {
            return Optional.empty();
        }
        String[] fields = stat.get().substring(stat.get().lastIndexOf(')') + 2).split(" ", -1);
        int number = Integer.parseInt(fields[TERMINAL_FIELD]);
        int major = (number >>> MAJOR_SHIFT) & MAJOR_MASK;
        int minor = (number & LOW_MINOR) | ((number >>> HIGH_MINOR_SHIFT) & HIGH_MINOR);
        String id = isPseudo(major) ? mount(pid, "") + " " + minor : "device " + major + ":" + minor;
        return Optional.of(new KernelObject(ObjectKind.TERMINAL, id));
    }

    /** Returns the devpts of an open master: the one that it was opened in, or the one beside {@code /dev/ptmx}. */
    private String mount(int pid, String device) throws IOException {
        String space = ProcFiles.link("/proc/" + pid + "/ns/mnt").orElse("");
        if (!mounts.containsKey(space)) {
            String all =
                    ProcFiles.text("/proc/" + pid + "/mountinfo", MOST_BYTES).orElse("");
            StringBuilder devices = new StringBuilder(" ");
            String usual = "";
            for (String line : all.split("\n", -1)) {
                if (!line.contains(" - devpts ")) {
                    continue;
                }
                String[] fields = line.split(" ", -1);
                devices.append(fields[2]).append(' ');
                usual = fields[4].endsWith("/dev/pts") || usual.isEmpty() ? fields[2] : usual;
            }
            mounts.put(space, usual + devices);
        }
        String known = mounts.get(space);
        return !device.isEmpty() && known.contains(" " + device + " ")
                ? device
                : known.substring(0, known.indexOf(' '));
    }
}
