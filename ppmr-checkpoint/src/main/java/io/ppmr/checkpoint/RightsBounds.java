package io.ppmr.checkpoint;

import java.nio.file.Path;
import java.util.function.BooleanSupplier;

/**
 * Bounds what is read of a rank's rights. Immutable; for any thread.
 *
 * @param mostFiles how many descriptors and mapped files the processes of a rank may have in all; as many threads
 * @param directory a folder of the service's own for what does not stay on the heap; made if it is needed
 * @param calledOff asked between two pieces, many times a second: reading ends with a message that names the cause once
 *     it says true
 */
public record RightsBounds(int mostFiles, Path directory, BooleanSupplier calledOff) {
    /** The usual limit of files a rank. */
    public static final int USUAL_FILES = 65_536;

    /** The usual bounds, for work that cannot be cancelled. */
    public static RightsBounds usual(Path directory) {
        return new RightsBounds(USUAL_FILES, directory, () -> false);
    }

    void requireWanted() throws CheckpointException {
        if (calledOff.getAsBoolean()) {
            throw new CheckpointException("the reading of what a rank may do and has open was called off");
        }
    }
}
