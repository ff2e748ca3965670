package io.ppmr.transport;

import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.ProtocolException;
import java.nio.ByteBuffer;

/**
 * Hears at the target, on the transport's own threads, which bytes come. {@link PullListener} is for what was pulled,
 * the methods here for what was sent unasked.
 */
public interface Arrivals extends PullListener {

    /**
     * A chunk is about to come, or, written by RDMA, lies in this node's memory already.
     *
     * @return where exactly its bytes go: a part of the receive slot that it was sent for. It belongs to the transport
     *     until {@link #onChunkEnd}, or for good if the bytes do not come
     * @throws ProtocolException if the slot is not granted for these bytes; the connection is ended then
     */
    ByteBuffer onChunkStart(ChunkFrame chunk) throws ProtocolException;

    /**
     * The bytes of the chunk that {@link #onChunkStart} was last told of on this thread are where they were to go.
     *
     * @return whether they are what was sent, so that the source may use its chunk again
     */
    boolean onChunkEnd(ChunkFrame chunk);

    /**
     * The chunk that {@link #onChunkStart} was last told of on this thread does not come by this connection, which
     * writes to its place no more: it may come again by another one. Who cannot take it again takes it for broken.
     */
    default void onChunkAborted(ChunkFrame chunk) {
        onProtocolError("the connection of " + chunk + " has ended in the middle of it");
    }

    /**
     * A connection by which chunks are written has failed, and the source has not broken the protocol. Who has no other
     * takes it for broken.
     */
    default void onConnectionLost(String reason) {
        onProtocolError(reason);
    }

    /** A connection has failed in the middle of a chunk, or its peer breaks the protocol. */
    void onProtocolError(String reason);
}
