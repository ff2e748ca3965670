package io.ppmr.transport;

import io.ppmr.protocol.data.DataMessage.Writable;
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
        throw new IOException("the target says where its memory may be written, and " + path() + " does not write");
    }

    /** The device and the peer, for messages. */
    String path();

    /** Ends every copy that is under way and waits, bounded, for the transport's threads. May be called twice. */
    @Override
    void close();
}
