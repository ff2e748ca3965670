package io.ppmr.source.image;

import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.FrameType;
import java.io.IOException;

/**
 * Sends an image's bytes to the target, or discards them in a benchmark. Called by writers and by the session's agent.
 * A call may block for a bounded time while the peer accepts nothing. The default methods do nothing.
 */
public interface Outlet {

    /** Requests credits for windows of a file; flags as in {@link io.ppmr.protocol.data.CreditRequestFrame}. */
    void requestCredits(OutgoingFile file, long window, int count, int flags) throws IOException;

    /** Returns a credit that is not needed. */
    void returnCredit(OutgoingFile file, long window, int slot) throws IOException;

    /** Sends bytes of a file's prefix, at a native address that is valid during the call. */
    void sendPrefix(OutgoingFile file, int position, long address, int lengthBytes) throws IOException;

    /**
     * Sends a READY chunk to the slot. The chunk is released when it arrived at the target. The file computes its
     * CRC32C.
     *
     * @param claimedNs the time of its claim, by {@link System#nanoTime}
     */
    void sendChunk(
            OutgoingFile file, int chunk, int offsetInChunk, long offset, int lengthBytes, int slot, long claimedNs)
            throws IOException;

    /** Sends a frame that contains one number. */
    void sendValue(FrameType type, int file, long value) throws IOException;

    /** Sends a change of names. */
    void sendNameChange(NameChange change) throws IOException;

    /** Blocks until all bytes of the file that were sent before arrived. */
    void sync(OutgoingFile file) throws IOException, InterruptedException;

    /** Called when a writer begins to wait for a chunk of the pool. */
    default void onPoolEmpty() {}

    /** Called after a writer waited for a chunk. */
    default void waitedForChunk(long tookNs) {}

    /** Called after a writer waited for a slot. */
    default void waitedForSlot(OutgoingFile file, long tookNs) {}
}
