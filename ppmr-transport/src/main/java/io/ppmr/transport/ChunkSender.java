package io.ppmr.transport;

import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;

/**
 * Sends chunks to the peer as soon as they are full, without a further request: their receive slots were granted
 * before. A chunk belongs to the sender from {@link #send} until its release.
 */
public non-sealed interface ChunkSender extends SourcePath {

    /** Receives the releases of chunks, on the sender's threads. Must not block for long. */
    interface Releases {
        /**
         * The chunk arrived completely, so it may be reused.
         *
         * @param chunk the number that the peer sent
         * @throws ProtocolException if that chunk was not sent, which closes the connection
         */
        void released(int chunk) throws ProtocolException;
    }

    /** Called once, before the first chunk is sent. */
    void begin(int attempt, Releases releases);

    /**
     * Sends a part of a READY chunk, or queues it if the network does not accept it at once. Never blocks. Any thread.
     * Chunks arrive in any order, so at most one chunk of each window may be under way.
     *
     * @param file the file's number
     * @param offset the position of the first byte in the file
     * @param slot the receive slot that was granted for its window
     * @param releaseSoon whether the source has few chunks left, so that the release must not be delayed
     * @throws IOException if the connection failed
     */
    void send(
            int chunk,
            int offsetInChunk,
            int lengthBytes,
            int file,
            long offset,
            int slot,
            int crc32c,
            boolean releaseSoon)
            throws IOException;
}
