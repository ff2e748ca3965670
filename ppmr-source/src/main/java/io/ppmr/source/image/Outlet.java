package io.ppmr.source.image;

import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.FrameType;
import java.io.IOException;

/**
 * Sends an image's bytes to the target, or discards them in a benchmark. Called by writers and by the session's agent;
 * a call may block for a bounded time while the peer accepts nothing. The default methods do nothing.
 */
public interface Outlet {

    /** Requests credits for windows of a file; flags as in {@link io.ppmr.protocol.data.CreditRequestFrame}. */
    void requestCredits(OutgoingFile file, long window, int count, int flags) throws IOException;

    /** Returns a credit that is not needed. */
    void returnCredit(OutgoingFile file, long window, int slot) throws IOException;

    /** Sends bytes of a file's prefix, at a native address that is valid during the call. */
    void sendPrefix(OutgoingFile file, int position, long address, int lengthBytes) throws IOException;

    /**
     * Sends a READY chunk for the slot. The chunk is released when the target has it. The file knows its CRC32C.
     *
     * @param claimedNs when it was claimed, by {@link System#nanoTime}
     */
    void sendChunk(
            OutgoingFile file, int chunk, int offsetInChunk, long offset, int lengthBytes, int slot, long claimedNs)
            throws IOException;

    /** Sends a frame that carries one number. */
    void sendValue(FrameType type, int file, long value) throws IOException;

    /** A change of names. */
    void sendNameChange(NameChange change) throws IOException;

    /** Returns when all of the file that was handed over so far has arrived. */
    void sync(OutgoingFile file) throws IOException, InterruptedException;

    /** Is called when a writer begins to wait for a chunk of the pool. */
    default void onPoolEmpty() {}

    /** Is called when a writer has waited for a chunk. */
    default void waitedForChunk(long tookNs) {}

    /** Is called when a writer has waited for a slot. */
    default void waitedForSlot(OutgoingFile file, long tookNs) {}
}
