package io.ppmr.fuse;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Which process serves a mount: process id, its start time and its PID namespace, so that neither a reused id nor an
 * equal id in another namespace is taken for it. It is part of the mount's source in {@code /proc/self/mountinfo} and
 * therefore survives the service's death.
 */
record ServiceIdentity(long pid, long startTicks, long pidNamespace) {
    private static final int STATE_FIELD = 0;
    private static final int FLAGS_FIELD = 6;
    private static final int START_FIELD = 19;
    /** PF_EXITING of the kernel: set from the moment in which a thread begins to die. */
    private static final long EXITING = 0x4;

    static ServiceIdentity ofThisProcess() throws IOException {
        long pid = ProcessHandle.current().pid();
        return new ServiceIdentity(
                pid, Long.parseLong(statFields(Path.of("/proc/self/stat"))[START_FIELD]), ownPidNamespace());
    }

    /** The identity in a mount's source; null where the source carries none. */
    static ServiceIdentity parse(String source) {
        String[] parts = source.substring(source.indexOf('@') + 1).split("\\.", -1);
        if (source.indexOf('@') < 0 || parts.length != 3) {
            return null;
        }
        try {
            return new ServiceIdentity(Long.parseLong(parts[0]), Long.parseLong(parts[1]), Long.parseLong(parts[2]));
        } catch (NumberFormatException e) {
            return null;
        }
    }

    String asSource(String fsname) {
        return fsname + "@" + pid + "." + startTicks + "." + pidNamespace;
    }

    boolean isOfThisPidNamespace() throws IOException {
        return pidNamespace == ownPidNamespace();
    }

    /**
     * Whether the process still serves. One that was killed and hangs in the kernel, because it held a file of its own
     * mount, is still listed in /proc, but as exiting.
     */
    boolean isServing() throws IOException {
        Path stat = Path.of("/proc", Long.toString(pid), "stat");
        if (!Files.exists(stat)) {
            return false;
        }
        String[] fields;
        try {
            fields = statFields(stat);
        } catch (IOException e) {
            // The process ended between the two looks; anything else is not for us to guess.
            if (!Files.exists(stat)) {
                return false;
            }
            throw e;
        }
        boolean gone = "Z".equals(fields[STATE_FIELD]) || "X".equals(fields[STATE_FIELD]);
        boolean exiting = (Long.parseLong(fields[FLAGS_FIELD]) & EXITING) != 0;
        return !gone && !exiting && Long.parseLong(fields[START_FIELD]) == startTicks;
    }

    /** The fields of proc(5)'s stat after the command's name, which may itself hold blanks and brackets. */
    private static String[] statFields(Path stat) throws IOException {
        String line = Files.readString(stat, StandardCharsets.ISO_8859_1);
        return line.substring(line.lastIndexOf(')') + 2).split(" ", -1);
    }

    private static long ownPidNamespace() throws IOException {
        String link = Files.readSymbolicLink(Path.of("/proc/self/ns/pid")).toString();
        return Long.parseLong(link.replaceAll("[^0-9]", ""));
    }
}
