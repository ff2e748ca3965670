package io.ppmr.linux;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/**
 * Creates directories whose modes do not depend on the umask. With umask 077 the job's user could not traverse the
 * directories that a service created above its work directory. With umask 0 every user could write there. Stateless,
 * for any thread.
 */
public final class Folders {
    /** Every user can traverse and list the directory. Only its owner can write there. */
    public static final String PASSABLE = "rwxr-xr-x";

    /** Only the owner can enter the directory. */
    public static final String PRIVATE = "rwx------";

    private static final FileAttribute<Set<PosixFilePermission>> AT_FIRST =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(PRIVATE));

    private Folders() {}

    /**
     * Creates a directory, and its missing parents with {@link #PASSABLE}. An existing directory keeps its mode.
     *
     * @param permissions such as {@code rwxr-xr-x}
     * @throws IOException if it cannot be created, or a file that is no directory has its name
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
            // Created private first, so that it never has more permissions than requested. The umask removes none of
            // the owner's.
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
