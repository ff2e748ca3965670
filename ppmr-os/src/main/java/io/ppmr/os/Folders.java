package io.ppmr.os;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/**
 * Makes directories whose modes do not depend on the umask: with 077 the job's user could not pass through what a
 * service made above its work directory, and with 0 every user could write there. Stateless, for any thread.
 */
public final class Folders {
    /** Every user can pass through such a directory and list it; its owner alone can write there. */
    public static final String PASSABLE = "rwxr-xr-x";

    /** The owner alone can enter such a directory. */
    public static final String PRIVATE = "rwx------";

    private static final FileAttribute<Set<PosixFilePermission>> AT_FIRST =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(PRIVATE));

    private Folders() {}

    /**
     * Makes a directory and, {@link #PASSABLE}, those above it that are missing. One that exists keeps its mode.
     *
     * @param permissions such as {@code rwxr-xr-x}
     * @throws IOException if it cannot be made, or something that is no directory has its name
     */
    public static void create(Path directory, String permissions) throws IOException {
        if (Files.isDirectory(directory)) {
            return;
        }
        Path parent = directory.toAbsolutePath().getParent();
        if (parent != null) {
            create(parent, PASSABLE);
        }
        try {
            // Not for a moment has it more rights than wanted: the umask takes none of its owner's away.
            Files.createDirectory(directory, AT_FIRST);
        } catch (FileAlreadyExistsException e) {
            if (!Files.isDirectory(directory)) {
                throw e;
            }
            return;
        }
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString(permissions));
    }
}
