package io.ppmr.protocol.data;

import java.util.List;
import java.util.Optional;

/**
 * The properties of a checkpointer's image files that the data plane needs. The target needs them to present arriving
 * files, the source to detect complete ones. Safe for any thread.
 */
public interface ImageTraits {

    /** Returns the way in which the restart reads the images. */
    ReadingMode readingMode();

    /**
     * Returns whether the restart reads this file once, from front to back. {@code name} is relative to the rank's
     * directory.
     */
    default boolean streams(String name) {
        return readingMode() == ReadingMode.STREAMED;
    }

    /**
     * Returns the name to which the checkpointer renames a file when the rank's files are complete. Files that {@link
     * #streams} names are excluded and may still be written. The restart may read the others to their ends from then
     * on. Empty if no file marks this before the checkpoint succeeded.
     */
    default Optional<String> completionMarkerName() {
        return Optional.empty();
    }

    /**
     * Returns names, relative to the rank's directory, that the restart may open before they exist. The target blocks
     * an open of such a name until the file arrives.
     */
    default List<String> expectedNames(int rank) {
        return List.of();
    }

    /**
     * Returns the members of {@link #expectedNames} whose open blocks until the rank's image is complete. An example
     * is CRIU's inventory.img, which is written last but opened first. Others open as soon as the file exists.
     */
    default List<String> completionNames(int rank) {
        return List.of();
    }

    /**
     * Returns the final name of a file that the tool writes under a temporary name and renames at the end. Empty for
     * other files.
     */
    default Optional<String> finalNameOf(String temporaryName) {
        return Optional.empty();
    }
}
