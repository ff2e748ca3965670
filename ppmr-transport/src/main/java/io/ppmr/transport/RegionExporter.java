package io.ppmr.transport;

/**
 * Exports a buffer pool for RDMA Reads by one peer. After an advertisement the source does nothing until the chunk is
 * released. The memory registration lasts as long as the session. {@link #address} and {@link #key} are constant and
 * may be read by any thread.
 */
public non-sealed interface RegionExporter extends SourcePath {

    /** Returns the address of a chunk's first byte for the peer. */
    long address(int chunk);

    /** Returns the remote key for every address. */
    long key();
}
