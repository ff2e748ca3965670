package io.ppmr.transport;

import io.ppmr.protocol.data.DataMessage.EndRail;
import io.ppmr.protocol.data.ProtocolException;

/**
 * The target's half of a transport: a {@link ChunkPuller}, which reads advertised chunks, or a {@link ChunkReceiver},
 * which receives chunks. Closed by the thread that ends the transfer.
 */
public sealed interface TargetPath extends AutoCloseable permits ChunkPuller, ChunkReceiver {

    /**
     * Ends a rail at the source's request, and reports to the source when no thread reads from it. Called by the
     * session's agent; does not block.
     *
     * @throws ProtocolException if there is no such rail, or that generation ended before
     */
    default void endRail(EndRail request) throws ProtocolException {
        throw new ProtocolException(
                "unexpected message EndRail for rail " + request.rail() + ": this session has no rails");
    }

    /** Aborts all copies and waits, for a bounded time, for the transport's threads. May be called twice. */
    @Override
    void close();
}
