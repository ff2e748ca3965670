package io.ppmr.transport;

import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.ProtocolException;
import java.nio.ByteBuffer;

/**
 * Receives arriving chunks at the target, on the transport's own threads. The methods of {@link PullListener} report
 * RDMA Reads, the methods here chunks that the source sent.
 */
public interface Arrivals extends PullListener {

    /**
     * A chunk is about to arrive, or, written by RDMA, is in this node's memory already.
     *
     * @return the buffer for its bytes: a part of the receive slot to which it was sent. The buffer belongs to the
     *     transport until {@link #onChunkEnd}, or permanently if the bytes do not arrive
     * @throws ProtocolException if the slot is not granted for these bytes; the connection is closed then
     */
    ByteBuffer onChunkStart(ChunkFrame chunk) throws ProtocolException;

    /**
     * All bytes of the chunk of the last {@link #onChunkStart} on this thread are in that buffer.
     *
     * @return whether the bytes are correct, so that the source may reuse its chunk
     */
    boolean onChunkEnd(ChunkFrame chunk);

    /**
     * The chunk of the last {@link #onChunkStart} on this thread does not arrive on this connection, which no longer
     * writes to its buffer. The chunk may arrive on another connection. By default this is a protocol error, for a
     * receiver that cannot receive it again.
     */
    default void onChunkAborted(ChunkFrame chunk) {
        onProtocolError("the connection ended in the middle of " + chunk);
    }

    /**
     * A connection that writes chunks failed, without a protocol violation by the source. By default this is a protocol
     * error, for a receiver without another connection.
     */
    default void onConnectionLost(String reason) {
        onProtocolError(reason);
    }

    /** A connection failed in the middle of a chunk, or its peer violated the protocol. */
    void onProtocolError(String reason);
}
