package io.ppmr.checkpoint.sharing;

import io.ppmr.checkpoint.sharing.KernelObject.ObjectKind;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcMaps;
import java.io.IOException;
import java.util.Optional;

/**
 * Reads the shared mappings of a process from {@code /proc/PID/maps}, as a stream. A process can have 65,530 of them,
 * with names of some thousand bytes. For one thread.
 */
public final class MappingScan {
    private static final int PERMISSIONS = 1;
    private static final int DEVICE = 3;
    private static final int INODE = 4;
    private static final int NAME = 5;
    private static final int FIELDS = 6;
    private static final int WRITES = 1;
    private static final int SHARED = 3;
    private static final String UNNAMED = " (deleted)";
    private static final String DEVICES = "/dev/";
    private static final String SYSTEM_V = "/SYSV";

    /** Receives mappings. */
    @FunctionalInterface
    public interface MappingSink {
        void accept(SharedMapping mapping) throws IOException;

        /** Receives, before {@link #accept}, a mapping of an unlinked file, of a device, or of no file. */
        default void special(String range, String name) throws IOException {}
    }

    /**
     * Memory that is mapped shared.
     *
     * @param object the memory
     * @param name the file's name from the kernel
     * @param inode the file's number
     * @param writes whether it may be written through this mapping
     */
    public record SharedMapping(KernelObject object, String name, long inode, boolean writes) {
        /** Returns true if both nodes cannot have the file, because its bytes are only in this node's memory. */
        boolean isMemoryOnly() {
            return isMemory(name);
        }

        /** Returns true if another process's use of it matters. Reading a file does not. */
        boolean matters() {
            return writes || (isMemoryOnly() && name.endsWith(UNNAMED));
        }
    }

    private MappingScan() {}

    /** Returns true for the names of files whose bytes are only in this node's memory. */
    static boolean isMemory(String name) {
        return name.startsWith("/memfd:")
                || name.startsWith(SYSTEM_V)
                || name.startsWith("/dev/zero")
                || name.startsWith("/dev/shm/");
    }

    /** Reads the mappings of a process, or none if it ended. */
    public static void read(int pid, MappingSink sink) throws IOException {
        ProcMaps.read(pid, line -> accept(pid, line, sink));
    }

    private static void accept(int pid, String line, MappingSink sink) throws IOException {
        int permissions = line.indexOf(' ') + 1;
        boolean shared = permissions + SHARED < line.length() && line.charAt(permissions + SHARED) == 's';
        boolean unnamed = line.endsWith(UNNAMED);
        if (!shared && !unnamed) {
            return;
        }
        String[] fields = line.split(" +", FIELDS);
        if (fields.length < FIELDS) {
            return;
        }
        boolean isPath = fields[NAME].startsWith("/");
        if (unnamed || !isPath || fields[NAME].startsWith(DEVICES)) {
            sink.special(fields[0], fields[NAME]);
        }
        // All objects without an inode of their own, such as rings of io_uring, have one in common.
        if (!shared || fields[INODE].equals("0") || !isPath) {
            return;
        }
        // System V memory is numbered for each IPC namespace.
        Optional<String> space =
                fields[NAME].startsWith(SYSTEM_V) ? ProcFiles.link("/proc/" + pid + "/ns/ipc") : Optional.of("");
        if (space.isPresent()) {
            sink.accept(new SharedMapping(
                    new KernelObject(ObjectKind.MEMORY, fields[DEVICE] + " " + fields[INODE] + " " + space.get()),
                    fields[NAME],
                    Long.parseLong(fields[INODE]),
                    fields[PERMISSIONS].charAt(WRITES) == 'w'));
        }
    }
}
