package io.ppmr.transport;

/**
 * The source's half of a transport: makes a buffer pool readable by one peer. After an advertisement the source takes
 * no step until the chunk is released; what the transport itself must do to serve a pull is its own affair.
 *
 * <p>Made for one session by the thread that runs the migration, which also closes it. {@link #address} and
 * {@link #key} are constant and may be asked by any thread.
 */
public interface RegionExporter extends AutoCloseable {

    /** Where the peer finds the first byte of a chunk. */
    long address(int chunk);

    /**
     * The peer may pull these bytes of a chunk from now on; said before it is told of them. With one-sided reads, where
     * the source takes no part in a pull, nothing narrower than the session's registration holds. Any thread.
     */
    void permit(int chunk, int offsetInChunk, int lengthBytes);

    /**
     * The peer may pull nothing of the chunk any more; said before the chunk is used again. Any thread.
     *
     * @param chunk by the peer's word
     * @return whether it could pull anything of it until now
     */
    boolean withdraw(int chunk);

    /** The key that goes with every address: an rkey, or what stands for one. */
    long key();

    /** Steps that this process has taken to serve pulls: with one-sided reads none, whatever is pulled. Any thread. */
    long work();

    /** What the target must find in this process's memory; to be told over the control session alone. */
    MemoryProof proof();

    /** The device and the peer, for messages. */
    String path();

    /** Ends every pull that is under way and waits, bounded, for the transport's threads. May be called twice. */
    @Override
    void close();
}
