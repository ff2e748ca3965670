package io.ppmr.protocol.data;

/** The way in which a restart reads its image files, which decides how long the target must keep them. */
public enum ReadingMode {
    /** Once, from front to back: a chunk is free after it was read. */
    STREAMED,
    /** In any order, any number of times, until the restart ends. */
    RETAINED
}
