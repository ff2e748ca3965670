package io.ppmr.bufferpool;

/** The life of a chunk: FREE, FILLING, READY, and FREE again; a chunk that is given up goes from FILLING to FREE. */
public enum ChunkState {
    FREE,
    FILLING,
    READY
}
