package io.ppmr.cli;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The folder at which a service mounts. */
final class MountPoint {
    private MountPoint() {}

    /** Makes it if it is missing; does not look at what is there, which may be the dead mount of a killed service. */
    static void prepare(Path mountPoint) throws IOException {
        Path absolute = mountPoint.toAbsolutePath();
        if (absolute.getParent() != null) {
            Files.createDirectories(absolute.getParent());
        }
        try {
            Files.createDirectory(absolute);
        } catch (FileAlreadyExistsException e) {
            // The usual case; the mount itself says what is wrong with it, if anything is.
            return;
        }
    }
}
