package io.ppmr.checkpoint;

import java.nio.file.Path;
import java.util.function.BooleanSupplier;

/**
 * Bounds the size of a rank's record of rights. Immutable; for any thread.
 *
 * @param mostFiles maximum number of descriptors and mapped files of a rank's processes together, and of threads
 * @param directory the service's folder for the part that does not stay on the heap; made if needed
 * @param calledOff checked many times a second between two pieces; once it returns true, reading ends with an error
 */
public record RightsBounds(int mostFiles, Path directory, BooleanSupplier calledOff) {
    /** The default limit of files for a rank. */
    public static final int DEFAULT_FILES = 65_536;

    /** Returns the default bounds, for work that cannot be cancelled. */
    public static RightsBounds standard(Path directory) {
        return new RightsBounds(DEFAULT_FILES, directory, () -> false);
    }

    void requireNotCancelled() throws CheckpointException {
        if (calledOff.getAsBoolean()) {
            throw new CheckpointException("the scan of a rank's privileges and open files was called off");
        }
    }
}
