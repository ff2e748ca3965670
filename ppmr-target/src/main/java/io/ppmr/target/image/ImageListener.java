package io.ppmr.target.image;

/**
 * Hears from files what the session's agent must know. Called under a file's lock by any thread; never blocks. One
 * that waits for nothing and counts nothing need not override what does nothing here.
 */
public interface ImageListener {

    /** Is called when the chunk holds no byte of the file: the agent may grant it again. */
    void slotFree(ReceiveSlot slot);

    /** There is more room in staging: the agent may grant it. */
    default void stagingFree() {}

    /** Bytes that have come cannot be staged, or not be read from there: the image can never be whole. */
    void stagingFailed(ArrivingFile file, String reason);

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
