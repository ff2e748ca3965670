package io.ppmr.target.image;

/**
 * Hears from files what the session's agent must know. Called under a file's lock by any thread; never blocks. One
 * that waits for nothing and counts nothing need not override what does nothing here.
 */
public interface ImageListener {

    /** Nothing of the file is in this chunk any more: the agent may grant it anew. */
    void slotFree(ReceiveSlot slot);

    /** A place in staging is free: the agent may grant it anew. */
    default void stagingFree() {}

    /** The index of staging has no room for bytes that have come: the image can never be whole. */
    void indexFull(ArrivingFile file);

    /** A reader waits for bytes that have not come. */
    default void readerWaits(ArrivingFile file) {}

    /** A reader has waited for bytes, or for a while, and looks again. */
    default void readerWaited(ArrivingFile file, long tookNs) {}

    /**
     * The number of streams whose reader's next window has no slot has changed: each of them may need one at any time.
     */
    void uncoveredStreams(int change);

    /** So many bytes were given to readers. */
    default void bytesRead(long bytes) {}

    /** A reader asked for bytes that a streamed file gave away before. */
    void seekRefused(ArrivingFile file, long offset);
}
