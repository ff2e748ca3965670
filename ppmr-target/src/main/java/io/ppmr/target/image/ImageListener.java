package io.ppmr.target.image;

/**
 * Receives the events of files for the session's agent. Called while holding a file's lock, by any thread; never
 * blocks. The default methods do nothing.
 */
public interface ImageListener {

    /** The chunk contains no byte of the file, so the agent may grant it again. */
    void slotFree(ReceiveSlot slot);

    /** Staging has more space, which the agent may grant. */
    default void stagingFree() {}

    /** Arrived bytes cannot be staged, or not be read from staging, so the image cannot become complete. */
    void stagingFailed(ArrivingFile file, String reason);

    /** A reader waits for missing bytes. */
    default void readerWaits(ArrivingFile file) {}

    /** A reader ended a wait, because bytes arrived or its time slice ended, and checks again. */
    default void readerWaited(ArrivingFile file, long tookNs) {}

    /** The number of streams whose reader's next window has no slot changed. Each of them may need one at any time. */
    void uncoveredStreams(int change);

    /** Counts bytes that were copied to readers. */
    default void bytesRead(long bytes) {}

    /** A reader requested bytes of a streamed file that were read before. */
    void seekRefused(ArrivingFile file, long offset);
}
