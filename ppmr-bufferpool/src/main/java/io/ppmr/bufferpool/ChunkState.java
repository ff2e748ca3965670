package io.ppmr.bufferpool;

/**
 * The states of a chunk: FREE, FILLING, READY, and FREE again. A chunk that its owner did not use goes from FILLING to
 * FREE.
 */
public enum ChunkState {
    FREE,
    FILLING,
    READY
}
