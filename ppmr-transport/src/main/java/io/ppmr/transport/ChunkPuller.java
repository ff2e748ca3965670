package io.ppmr.transport;

/**
 * Copies blocks of the peer's pool into local chunks by RDMA Read, many at a time (paper 1, section IV, step 3).
 *
 * <p>One thread calls {@link #pull}. Each pull has exactly one result on the {@link PullListener}, also when the
 * transport fails or is closed. Until then the local chunk belongs to the transport.
 */
public non-sealed interface ChunkPuller extends TargetPath {

    /** Returns the maximum number of concurrent pulls, which the caller must not exceed. */
    int depth();

    /**
     * Starts a pull and returns at once.
     *
     * @param pullId identifies the pull in its result
     * @param from the block at the peer; its fields are read before the call returns
     * @param localChunk chunk of the local pool, which belongs to this pull until its result
     * @param localOffset the position of the block's first byte in that chunk
     * @param more whether another pull follows at once, so that this one may be delayed and posted with it: one post
     *     wakes the peer once
     */
    void pull(long pullId, RemoteBlock from, int localChunk, int localOffset, boolean more);

    /** Starts a pull without a following one. */
    default void pull(long pullId, RemoteBlock from, int localChunk, int localOffset) {
        pull(pullId, from, localChunk, localOffset, false);
    }
}
