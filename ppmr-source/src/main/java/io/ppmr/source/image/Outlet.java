package io.ppmr.source.image;

import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.FrameType;
import java.io.IOException;

/**
 * Takes an image's bytes away: to the target, or for a benchmark nowhere. Called by writers and by the session's agent;
 * a call may wait, bounded, while the peer takes nothing. One that counts nothing and has no chunks to bring back need
 * not override what does nothing here.
 */
public interface Outlet {

    /** Asks for slots for windows of a file; flags as in {@link io.ppmr.protocol.data.CreditRequestFrame}. */
    void want(OutgoingFile file, long window, int count, int flags) throws IOException;

    /** A credit is not needed. */
    void giveBack(OutgoingFile file, long window, int slot) throws IOException;

    /** Bytes of a file's head, at a native address that is valid during the call. */
    void head(OutgoingFile file, int position, long address, int lengthBytes) throws IOException;

    /**
     * A READY chunk for the slot; it comes back when the target has it. Its CRC32C is the file's to tell.
     *
     * @param claimedNs when it was claimed, by {@link System#nanoTime}
     */
    void advertise(
            OutgoingFile file, int chunk, int offsetInChunk, long offset, int lengthBytes, int slot, long claimedNs)
            throws IOException;

    /** A frame that carries one number. */
    void value(FrameType type, int file, long value) throws IOException;

    /** A change of names. */
    void nameChange(NameChange change) throws IOException;

    /** Returns when all of the file that was handed over so far has arrived. */
    void sync(OutgoingFile file) throws IOException, InterruptedException;

    /** A writer waits for a chunk of the pool. */
    default void starving() {}

    /** A writer has waited for one. */
    default void waitedForChunk(long tookNs) {}

    /** A writer has waited for a slot. */
    default void waitedForSlot(OutgoingFile file, long tookNs) {}
}
