package io.ppmr.transport;

import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;

/**
 * The source's half of a transport: chunks of the pool leave by it to one peer. It is either a {@link ChunkSender},
 * which starts each copy itself, or a {@link RegionExporter}, out of which the peer copies. Made for one session by the
 * thread that runs the migration, which also closes it.
 */
public sealed interface SourcePath extends AutoCloseable permits ChunkSender, RegionExporter {

    /** Steps that this process has taken to move chunks: with one-sided reads none, whatever is pulled. Any thread. */
    long work();

    /** The proof that the target must find in this process's memory; to be told over the control session alone. */
    MemoryProof proof();

    /**
     * Takes the target's word where in its memory this session may write, before the first chunk is sent.
     *
     * @throws IOException if this transport writes nothing there, or the word makes no sense
     */
    default void mayWrite(Writable where) throws IOException {
        throw new IOException("unexpected message Writable: " + path() + " does not write");
    }

    /**
     * Takes the target's word that it has ended a rail. Called by the session's agent; does not wait.
     *
     * @throws IOException if this transport has no rails, or has not asked for that
     */
    default void railEnded(RailEnded word) throws IOException {
        throw new ProtocolException("the target ends rail " + word.rail() + ", and " + path() + " is no rail");
    }

    /** The device and the peer, for messages. */
    String path();

    /** Ends every copy that is under way and waits, bounded, for the transport's threads. May be called twice. */
    @Override
    void close();
}
