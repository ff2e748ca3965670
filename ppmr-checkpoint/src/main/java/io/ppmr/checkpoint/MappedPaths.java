package io.ppmr.checkpoint;

import io.ppmr.checkpoint.ProcessPrivileges.OpenFile;
import io.ppmr.checkpoint.ProcessPrivileges.Receiver;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFiles.FileStatus;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the files that a process has mapped on a kernel without {@code map_files}: one before Linux 4.3 that was made
 * without CONFIG_CHECKPOINT_RESTORE. The path of a mapping is in {@code smaps}. The flag {@code mw} shows whether a
 * shared mapping may be written, now or after mprotect(2). The kernel sets it if the file was opened for writing.
 * proc_pid_smaps(5); VmFlags exists since Linux 3.8.
 *
 * <p>The owner is that of the file at the path, if device and inode agree. Otherwise it is unknown, and only the path
 * is compared.
 */
final class MappedPaths {
    private static final Logger LOG = LoggerFactory.getLogger(MappedPaths.class);
    private static final int FIELDS = 6;
    private static final int PERMISSIONS = 1;
    private static final int DEVICE = 3;
    private static final int INODE = 4;
    private static final int PATH = 5;
    private static final int SHARED_LETTER = 3;
    private static final int HEX = 16;
    private static final String FLAGS = "VmFlags:";
    private static final String MAY_WRITE = " mw ";

    private MappedPaths() {}

    /**
     * Passes the files that a process has mapped.
     *
     * @param proc the process's directory in {@code /proc}
     * @param seen recently read private mappings, each without its addresses
     */
    static void read(Path proc, Receiver<OpenFile> files, RecentTexts seen) throws IOException, CheckpointException {
        String[] shared = null;
        // The file is read line by line, because a process can have 65,530 mappings of 16 lines each.
        try (BufferedReader lines = Files.newBufferedReader(proc.resolve("smaps"), StandardCharsets.ISO_8859_1)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] fields = line.split(" +", FIELDS);
                if (fields[0].equals(FLAGS) && shared != null) {
                    files.take(file(proc, shared, (line + " ").contains(MAY_WRITE)));
                    shared = null;
                } else if (!fields[0].endsWith(":")) {
                    requireFlags(shared);
                    boolean named = fields.length == FIELDS && fields[PATH].startsWith("/");
                    shared = named && fields[PERMISSIONS].charAt(SHARED_LETTER) == 's' ? fields : null;
                    if (named && shared == null && seen.isNew(line.substring(line.indexOf(fields[DEVICE])))) {
                        files.take(file(proc, fields, false));
                    }
                }
            }
        }
        requireFlags(shared);
    }

    private static void requireFlags(String[] shared) throws IOException {
        if (shared != null) {
            throw new IOException("smaps has no " + FLAGS + " for the shared mapping of " + shared[PATH]
                    + ", so its permission to be written is unknown: Linux 3.8 or newer is needed");
        }
    }

    /**
     * Returns the mapped file. Only newlines are escaped, and a name can have the escape itself. Therefore the path
     * that leads to the file counts. A path is from this service's view, or from the process's if it has its own
     * mounts.
     */
    private static OpenFile file(Path proc, String[] mapping, boolean writes) throws IOException {
        String shown = mapping[PATH];
        String plain = shown.replace("\\012", "\n");
        for (String path : shown.equals(plain) ? List.of(shown) : List.of(plain, shown)) {
            for (String place : List.of(path, proc + "/root" + path)) {
                Optional<FileStatus> found = status(place);
                if (found.isPresent()
                        && found.get().inode() == Long.parseLong(mapping[INODE])
                        && found.get().device().equals(device(mapping[DEVICE]))) {
                    return new OpenFile(path, found.get().uid(), true, writes);
                }
            }
        }
        return new OpenFile(plain, -1, true, writes);
    }

    /** Returns the file's status. Empty if it was removed or replaced, or its folder may not be searched. */
    private static Optional<FileStatus> status(String place) {
        try {
            return ProcFiles.status(place);
        } catch (IOException e) {
            LOG.debug("the owner of a mapped file is unknown: {}", e.toString());
            return Optional.empty();
        }
    }

    /** Converts a device from the hexadecimal form in {@code maps} to MAJOR:MINOR in decimal. */
    static String device(String shown) {
        int colon = shown.indexOf(':');
        return Long.parseLong(shown.substring(0, colon), HEX) + ":" + Long.parseLong(shown.substring(colon + 1), HEX);
    }
}
