package io.ppmr.transport;

/**
 * Makes a buffer pool readable by one peer. After an advertisement the source takes no step until the chunk is
 * released; nothing narrower than the session's registration holds. {@link #address} and {@link #key} are constant and
 * may be asked by any thread.
 */
public non-sealed interface RegionExporter extends SourcePath {

    /** Returns where the peer finds the first byte of a chunk. */
    long address(int chunk);

    /** The key that goes with every address: an rkey, or what stands for one. */
    long key();
}
