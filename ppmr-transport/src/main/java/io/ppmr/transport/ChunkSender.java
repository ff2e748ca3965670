package io.ppmr.transport;

import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;

/**
 * Sends chunks to the peer as soon as they are full: the receive slot was granted before, so nothing must be asked for.
 * A chunk belongs to the sender from {@link #send} until its release.
 */
public non-sealed interface ChunkSender extends SourcePath {

    /** Hears on the sender's threads which chunks have arrived. Must not block for long. */
    interface Releases {
        /**
         * The chunk has arrived whole; it may be used again.
         *
         * @param chunk by the peer's word
         * @throws ProtocolException if the peer cannot have it, which ends the connection
         */
        void released(int chunk) throws ProtocolException;
    }

    /** Called once, before the first chunk is sent. */
    void begin(int attempt, Releases releases);

    /**
     * Sends a part of a READY chunk, or has it sent where the network does not take it at once; does not wait for it.
     * Any thread. Chunks arrive in any order, so at most one of a window of a file may be under way.
     *
     * @param file the file's number
     * @param offset of the first byte in the file
     * @param slot the receive slot that was granted for its window
     * @param soon whether the source has few chunks left, so that the release should not wait for others
     * @throws IOException if the connection has failed
     */
    void send(int chunk, int offsetInChunk, int lengthBytes, int file, long offset, int slot, int crc32c, boolean soon)
            throws IOException;
}
