package io.ppmr.checkpoint;

import io.ppmr.checkpoint.ProcessPrivileges.OpenFile;
import io.ppmr.checkpoint.ProcessPrivileges.Receiver;
import io.ppmr.os.ProcFiles;
import io.ppmr.os.ProcFiles.FileStatus;
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
 * Reads the files that a process has mapped on a kernel that has no {@code map_files}, which is one before Linux 4.3
 * that was made without CONFIG_CHECKPOINT_RESTORE. What a mapping is of is the path that {@code smaps} shows, and the
 * flag {@code mw} says whether a shared one may be written, now or after mprotect(2): the kernel sets it if the file
 * was opened for writing. proc_pid_smaps(5); VmFlags is of Linux 3.8.
 *
 * <p>Whose the file is says the file of that path, if device and inode agree; otherwise it is unknown, and only the
 * path is compared.
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
     * Tells what a process has mapped.
     *
     * @param proc the process's directory in {@code /proc}
     * @param seen the private mappings that were read lately, each without its addresses
     */
    static void read(Path proc, Receiver<OpenFile> files, RecentTexts seen) throws IOException, CheckpointException {
        String[] shared = null;
        // Line by line: a process can have 65,530 mappings of 16 lines each.
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
                    + ", so whether it may be written is not known: Linux 3.8 or newer is needed");
        }
    }

    /**
     * Newlines alone are written otherwise than they are, and a name can have the signs for them itself: the one that
     * leads to the file is it. A path is as this service sees it, or, where the process has mounts of its own, as the
     * process does.
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

    /** Empty if it has been removed or replaced, or its folder may not be passed: it says nothing of the mapping. */
    private static Optional<FileStatus> status(String place) {
        try {
            return ProcFiles.status(place);
        } catch (IOException e) {
            LOG.debug("the owner of a mapped file is not known: {}", e.toString());
            return Optional.empty();
        }
    }

    /** Returns as MAJOR:MINOR in decimal what {@code maps} shows in hexadecimal. */
    static String device(String shown) {
        int colon = shown.indexOf(':');
        return Long.parseLong(shown.substring(0, colon), HEX) + ":" + Long.parseLong(shown.substring(colon + 1), HEX);
    }
}
