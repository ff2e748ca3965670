package io.ppmr.checkpoint.sharing;

import io.ppmr.checkpoint.sharing.KernelObject.Kind;
import io.ppmr.os.ProcFiles;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;

/**
 * Reads the shared mappings of a process out of {@code /proc/PID/maps}, as a stream: a process can have 65,530 of them,
 * with names of some thousand bytes. For one thread.
 */
final class MappingScan {
    private static final int BUFFER_BYTES = 1 << 16;
    /** Address, permissions, offset, device, inode and the longest name, whose line ends may be written in octal. */
    private static final int LONGEST_LINE = 4 * 4096 + 200;

    private static final int PERMISSIONS = 1;
    private static final int DEVICE = 3;
    private static final int INODE = 4;
    private static final int NAME = 5;
    private static final int FIELDS = 6;
    private static final int WRITES = 1;
    private static final int SHARED = 3;
    private static final String UNNAMED = " (deleted)";
    private static final byte[] UNNAMED_BYTES = UNNAMED.getBytes(StandardCharsets.ISO_8859_1);
    private static final String DEVICES = "/dev/";
    private static final String SYSTEM_V = "/SYSV";

    /** Receives mappings. */
    @FunctionalInterface
    interface Sink {
        void accept(Mapping mapping) throws IOException;

        /** Receives, before {@link #accept}, one of a file without a name, of a device, or of no file. */
        default void special(String range, String name) throws IOException {}
    }

    /**
     * Memory that is mapped shared.
     *
     * @param object the memory
     * @param name the file's name as the kernel shows it
     * @param inode the file's number
     * @param writes whether it may be written through this mapping
     */
    record Mapping(KernelObject object, String name, long inode, boolean writes) {
        /** Returns true if it is no file that both nodes could have: its bytes are in this node's memory alone. */
        boolean isMemoryOnly() {
            return isMemory(name);
        }

        /** Returns true if what another process does with it matters; reading a file is not what it is about here. */
        boolean matters() {
            return writes || (isMemoryOnly() && name.endsWith(UNNAMED));
        }
    }

    private MappingScan() {}

    /** Returns true for the names of files whose bytes are in this node's memory alone. */
    static boolean isMemory(String name) {
        return name.startsWith("/memfd:")
                || name.startsWith(SYSTEM_V)
                || name.startsWith("/dev/zero")
                || name.startsWith("/dev/shm/");
    }

    /** Reads those of a process; none if it has ended. */
    static void read(int pid, Sink sink) throws IOException {
        try (InputStream maps = Files.newInputStream(Path.of("/proc", Integer.toString(pid), "maps"))) {
            byte[] buffer = new byte[BUFFER_BYTES];
            byte[] line = new byte[LONGEST_LINE];
            int used = 0;
            for (int length = maps.read(buffer); length > 0; length = maps.read(buffer)) {
                for (int at = 0; at < length; at++) {
                    if (buffer[at] == '\n') {
                        accept(pid, line, used, sink);
                        used = 0;
                    } else if (used < line.length) {
                        line[used++] = buffer[at];
                    }
                }
            }
        } catch (NoSuchFileException e) {
            return;
        } catch (IOException e) {
            if (String.valueOf(e.getMessage()).contains("No such process")) {
                return;
            }
            throw e;
        }
    }

    private static void accept(int pid, byte[] line, int length, Sink sink) throws IOException {
        int permissions = after(line, length);
        boolean shared = permissions + SHARED < length && line[permissions + SHARED] == 's';
        boolean unnamed = endsUnnamed(line, length);
        if (!shared && !unnamed) {
            return;
        }
        String[] fields = new String(line, 0, length, StandardCharsets.ISO_8859_1).split(" +", FIELDS);
        if (fields.length < FIELDS) {
            return;
        }
        boolean isPath = fields[NAME].startsWith("/");
        if (unnamed || !isPath || fields[NAME].startsWith(DEVICES)) {
            sink.special(fields[0], fields[NAME]);
        }
        // All that have no inode of their own, as rings of io_uring, have one in common.
        if (!shared || fields[INODE].equals("0") || !isPath) {
            return;
        }
        // System V memory is numbered for each IPC namespace.
        Optional<String> space =
                fields[NAME].startsWith(SYSTEM_V) ? ProcFiles.link("/proc/" + pid + "/ns/ipc") : Optional.of("");
        if (space.isPresent()) {
            sink.accept(new Mapping(
                    new KernelObject(Kind.MEMORY, fields[DEVICE] + " " + fields[INODE] + " " + space.get()),
                    fields[NAME],
                    Long.parseLong(fields[INODE]),
                    fields[PERMISSIONS].charAt(WRITES) == 'w'));
        }
    }

    private static boolean endsUnnamed(byte[] line, int length) {
        int start = length - UNNAMED_BYTES.length;
        return start > 0 && Arrays.equals(line, start, length, UNNAMED_BYTES, 0, UNNAMED_BYTES.length);
    }

    private static int after(byte[] line, int length) {
        int at = 0;
        while (at < length && line[at] != ' ') {
            at++;
        }
        return at + 1;
    }
}
