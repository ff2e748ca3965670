package io.ppmr.transport;

import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;

/**
 * The source's half of a transport, which moves chunks of the pool to one peer. It is either a {@link ChunkSender},
 * which starts each copy itself, or a {@link RegionExporter}, from which the peer copies. The migration's thread
 * creates it for one session and closes it.
 */
public sealed interface SourcePath extends AutoCloseable permits ChunkSender, RegionExporter {

    /** The number of operations of this process for moving chunks; none with one-sided reads. Any thread. */
    long operations();

    /** The proof that the target must find in this process's memory. Send it only over the control session. */
    MemoryProof proof();

    /**
     * Receives the memory of the target to which this session may write, before the first chunk is sent.
     *
     * @throws IOException if this transport does not write, or the message is invalid
     */
    default void onWritable(Writable memory) throws IOException {
        throw new IOException("unexpected message Writable: " + path() + " does not write");
    }

    /**
     * Handles the target's message that it ended a rail. Called by the session's agent; does not block.
     *
     * @throws IOException if this transport has no rails, or did not request this
     */
    default void onRailEnded(RailEnded ended) throws IOException {
        throw new ProtocolException(
                "unexpected message RailEnded for rail " + ended.rail() + ": " + path() + " has no rails");
    }

    /** The device and the peer, for messages. */
    String path();

    /** Aborts all copies and waits, for a bounded time, for the transport's threads. May be called twice. */
    @Override
    void close();
}
