package io.ppmr.protocol.data;

import java.util.List;
import java.util.Optional;

/** What the target must know of a checkpointer's image files to show them while they arrive. Safe for any thread. */
public interface ImageTraits {

    /** How its restart reads the images. */
    ReadingMode readingMode();

    /**
     * Names, relative to the rank's directory, that the restart opens before they may exist: the target lets an open of
     * one of them wait until the file has come.
     */
    List<String> announcedNames(int rank);

    /**
     * Of {@link #announcedNames}, those whose open waits until the rank's image is complete (CRIU's inventory.img,
     * which is written last but opened first); others open as soon as the file exists.
     */
    List<String> completionNames(int rank);

    /** The final name of a file that the tool writes under a temporary name and renames at the end, if it is one. */
    Optional<String> finalNameOf(String temporaryName);
}
