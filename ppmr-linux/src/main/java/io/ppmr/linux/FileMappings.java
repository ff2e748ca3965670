package io.ppmr.linux;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Reads the file mappings of a process without their names, since a user decides the number and length of these. For
 * example, 26,000 names of 3,500 bytes are 93 MB of text. Linux 6.11 and later offer PROCMAP_QUERY,
 * ioctl_procmap_query(2). On earlier kernels the names in {@code maps} are skipped, but the kernel spends time on
 * producing them. For any thread.
 */
public final class FileMappings {
    /** {@code _IOWR('f', 17, struct procmap_query)}. */
    private static final long PROCMAP_QUERY = 0xC0686611L;

    private static final int QUERY_BYTES = 104;
    private static final int FLAGS_OFFSET = 8;
    private static final int ADDRESS_OFFSET = 16;
    private static final int START_OFFSET = 24;
    private static final int END_OFFSET = 32;
    private static final int MAPPING_OFFSET = 40;
    private static final int INODE_OFFSET = 64;
    private static final int MAJOR_OFFSET = 72;
    private static final int MINOR_OFFSET = 76;
    private static final long SHARED = 8;
    /** PROCMAP_QUERY_COVERING_OR_NEXT_VMA and PROCMAP_QUERY_FILE_BACKED_VMA. */
    private static final long NEXT_OF_A_FILE = 0x10 | 0x20;

    private static final int ENOENT = 2;
    private static final int ESRCH = 3;
    private static final int O_CLOEXEC = 02000000;

    private static final int BUFFER_BYTES = 1 << 16;
    /** Maximum length of a line's fields before the name, and the first byte of the name. */
    private static final int HEAD_BYTES = 160;

    private FileMappings() {}

    /**
     * A mapping of a file, or of a kernel object that looks like a file.
     *
     * @param link the name of its link in {@code map_files}
     * @param shared whether other mappings of the same file see written bytes
     * @param file device and inode; equal for all mappings of that file in one scan
     */
    public record FileMapping(String link, boolean shared, String file) {}

    /** Receives mappings. */
    @FunctionalInterface
    public interface MappingReceiver<E extends Exception> {
        /** Receives the next mapping, in the order of their addresses. */
        void accept(FileMapping mapping) throws IOException, E;
    }

    /**
     * Passes each mapping of a file to the receiver.
     *
     * @param maps the path of the process's list, {@code /proc/PID/maps}
     */
    public static <E extends Exception> void forEach(String maps, MappingReceiver<E> receiver) throws IOException, E {
        int descriptor = LibC.CALLS.open(ProcFiles.terminated(maps), O_CLOEXEC);
        if (descriptor < 0) {
            throw new IOException(maps + " cannot be read: " + LibC.describe(LibC.errno()));
        }
        boolean answered;
        try {
            answered = query(maps, descriptor, receiver);
        } finally {
            LibC.CALLS.close(descriptor);
        }
        if (!answered) {
            read(maps, receiver);
        }
    }

    /** Returns false if the kernel does not have this call. */
    private static <E extends Exception> boolean query(String maps, int descriptor, MappingReceiver<E> receiver)
            throws IOException, E {
        Pointer query = Memory.allocateDirect(Runtime.getSystemRuntime(), QUERY_BYTES, true);
        long from = 0;
        while (true) {
            query.putLong(0, QUERY_BYTES);
            query.putLong(FLAGS_OFFSET, NEXT_OF_A_FILE);
            query.putLong(ADDRESS_OFFSET, from);
            if (LibC.CALLS.ioctl(descriptor, PROCMAP_QUERY, query.address()) < 0) {
                int errno = LibC.errno();
                // ESRCH: the process ended, or executed another program. The text ends there, too.
                if (errno == ENOENT || errno == ESRCH) {
                    return true;
                }
                if (from != 0) {
                    throw new IOException(maps + " cannot be queried: " + LibC.describe(errno));
                }
                return false;
            }
            from = query.getLong(END_OFFSET);
            receiver.accept(new FileMapping(
                    Long.toHexString(query.getLong(START_OFFSET)) + "-" + Long.toHexString(from),
                    (query.getLong(MAPPING_OFFSET) & SHARED) != 0,
                    Long.toHexString(query.getInt(MAJOR_OFFSET)) + ":" + Long.toHexString(query.getInt(MINOR_OFFSET))
                            + " " + Long.toUnsignedString(query.getLong(INODE_OFFSET))));
        }
    }

    private static <E extends Exception> void read(String maps, MappingReceiver<E> receiver) throws IOException, E {
        try (InputStream in = Files.newInputStream(Path.of(maps))) {
            byte[] buffer = new byte[BUFFER_BYTES];
            byte[] head = new byte[HEAD_BYTES];
            int used = 0;
            for (int length = in.read(buffer); length > 0; length = in.read(buffer)) {
                for (int at = 0; at < length; at++) {
                    if (buffer[at] == '\n') {
                        accept(new String(head, 0, used, StandardCharsets.ISO_8859_1), receiver);
                        used = 0;
                    } else if (used < HEAD_BYTES) {
                        head[used++] = buffer[at];
                    }
                }
            }
        }
    }

    private static <E extends Exception> void accept(String head, MappingReceiver<E> receiver) throws IOException, E {
        Optional<MappingLine> mapping = MappingLine.parse(head).filter(MappingLine::hasFile);
        if (mapping.isPresent()) {
            MappingLine found = mapping.get();
            receiver.accept(new FileMapping(
                    found.link(),
                    found.isShared(),
                    Long.toHexString(found.device()) + " " + Long.toUnsignedString(found.inode())));
        }
    }
}
