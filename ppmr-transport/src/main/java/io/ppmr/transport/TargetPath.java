package io.ppmr.transport;

import io.ppmr.protocol.data.DataMessage.EndRail;
import io.ppmr.protocol.data.ProtocolException;

/**
 * The target's half of a transport: a {@link ChunkPuller}, which fetches what is advertised, or a {@link
 * ChunkReceiver}, to which chunks come by themselves. Closed by the thread that ends the transfer.
 */
public sealed interface TargetPath extends AutoCloseable permits ChunkPuller, ChunkReceiver {

    /**
     * Ends a rail at the source's word, and reports to the source when no thread reads from it. Called by the session's
     * agent; does not wait.
     *
     * @throws ProtocolException if there is no such rail, or that generation of it has ended
     */
    default void endRail(EndRail word) throws ProtocolException {
        throw new ProtocolException("the source ends rail " + word.rail() + ", and there are no rails here");
    }

    /** Ends every copy that is under way and waits, bounded, for the transport's threads. May be called twice. */
    @Override
    void close();
}
