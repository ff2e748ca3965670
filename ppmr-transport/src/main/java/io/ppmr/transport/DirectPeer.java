package io.ppmr.transport;

import java.io.IOException;
import java.time.Duration;

/**
 * The target's end of a direct connection, before the first pull. Owned by the thread that accepted it; closed with its
 * puller, or by {@link #close} if there is none.
 */
public interface DirectPeer extends AutoCloseable {

    /**
     * Makes sure that the source of the control session is at the other end.
     *
     * @throws IOException if it is not, or the bytes do not come within {@code deadline}
     */
    void require(MemoryProof proof, Duration deadline) throws IOException;

    /** The puller, which owns the connection from now on. */
    ChunkPuller puller(PullListener listener);

    /** The device and the peer, for messages. */
    String path();

    /** Ends the connection. May be called twice, and after the puller was closed. */
    @Override
    void close();
}
