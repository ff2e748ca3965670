package io.ppmr.checkpoint;

import io.ppmr.checkpoint.RankRights.OpenFile;
import io.ppmr.checkpoint.RankRights.Taker;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the files that a process has mapped on a kernel that has no {@code map_files}, which is one before Linux 4.3
 * that was made without CONFIG_CHECKPOINT_RESTORE. What a mapping is of is the path that {@code smaps} shows, and the
 * flag {@code mw} says whether a shared one may be written, now or after mprotect(2): the kernel sets it if the file
 * was opened for writing. proc_pid_smaps(5); VmFlags is of Linux 3.8.
 *
 * <p>Whose the file is says the file of that path, if device and inode agree; else nobody does, and the path alone is
 * compared.
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
    static void read(Path proc, Taker<OpenFile> files, RecentTexts seen) throws IOException, CheckpointException {
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

    private static OpenFile file(Path proc, String[] mapping, boolean writes) throws IOException {
        // Newlines alone are written otherwise than they are.
        String text = mapping[PATH].replace("\\012", "\n");
        String path = new String(text.getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8);
        return new OpenFile(path, owner(proc, path, mapping), true, writes);
    }

    /** The path is as this service sees it, or, where the process has mounts of its own, as it does. */
    private static int owner(Path proc, String path, String[] mapping) throws IOException {
        for (Path place : List.of(Path.of(path), proc.resolve("root").resolve(path.substring(1)))) {
            try {
                Map<String, Object> found = Files.readAttributes(place, "unix:uid,dev,ino");
                if (found.get("ino").equals(Long.parseLong(mapping[INODE]))
                        && found.get("dev").equals(device(mapping[DEVICE]))) {
                    return (Integer) found.get("uid");
                }
            } catch (FileSystemException e) {
                // It has been removed or replaced, or its folder may not be passed: it says nothing of the mapping.
                LOG.debug("the owner of {} is not known: {}", place, e.toString());
            }
        }
        return -1;
    }

    /** The number that stat(2) gives for a device which {@code maps} shows as MAJOR:MINOR, see makedev(3). */
    static long device(String shown) {
        int colon = shown.indexOf(':');
        long major = Long.parseLong(shown.substring(0, colon), HEX);
        long minor = Long.parseLong(shown.substring(colon + 1), HEX);
        return ((major & 0xfff) << 8) | ((major & ~0xfffL) << 32) | (minor & 0xff) | ((minor & ~0xffL) << 12);
    }
}
