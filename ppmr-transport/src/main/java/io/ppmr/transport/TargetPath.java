package io.ppmr.transport;

/**
 * The target's half of a transport: a {@link ChunkPuller}, which fetches what is advertised, or a {@link
 * ChunkReceiver}, to which chunks come by themselves. Closed by the thread that ends the transfer.
 */
public sealed interface TargetPath extends AutoCloseable permits ChunkPuller, ChunkReceiver {

    /** Ends every copy that is under way and waits, bounded, for the transport's threads. May be called twice. */
    @Override
    void close();
}
