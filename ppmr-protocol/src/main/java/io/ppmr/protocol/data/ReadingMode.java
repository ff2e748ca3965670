package io.ppmr.protocol.data;

/** The way in which a restart reads its image files, which decides how long the target must keep them. */
public enum ReadingMode {
    /** Front to back, once: a chunk is free again when it has been read. */
    STREAMED,
    /** In any order, any number of times, until the restart is over. */
    RETAINED
}
