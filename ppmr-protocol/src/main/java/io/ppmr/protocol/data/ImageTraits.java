package io.ppmr.protocol.data;

import java.util.List;
import java.util.Optional;

/**
 * The properties of a checkpointer's image files that the data plane must know: the target to show them while they
 * arrive, the source to know when they are whole. Safe for any thread.
 */
public interface ImageTraits {

    /** Returns how its restart reads the images. */
    ReadingMode readingMode();

    /** Returns whether the restart reads this file front to back, once; by its name in the rank's directory. */
    default boolean streams(String name) {
        return readingMode() == ReadingMode.STREAMED;
    }

    /**
     * The name that a file gets, by a rename, when all files of the rank are whole but those that {@link #streams}
     * names, which are still written; the restart may read the others to their ends from then on. Empty if nothing
     * tells so before the checkpoint has succeeded.
     */
    default Optional<String> completionMarkerName() {
        return Optional.empty();
    }

    /**
     * Names, relative to the rank's directory, that the restart opens before they may exist: the target lets an open of
     * one of them wait until the file has come.
     */
    default List<String> expectedNames(int rank) {
        return List.of();
    }

    /**
     * Of {@link #expectedNames}, those whose open waits until the rank's image is complete (CRIU's inventory.img,
     * which is written last but opened first); others open as soon as the file exists.
     */
    default List<String> completionNames(int rank) {
        return List.of();
    }

    /** The final name of a file that the tool writes under a temporary name and renames at the end, if it is one. */
    default Optional<String> finalNameOf(String temporaryName) {
        return Optional.empty();
    }
}
