package io.ppmr.transport;

/**
 * Pulls blocks of the peer's pool into chunks of its own, many at a time (paper 1, section IV, step 3: an RDMA Read).
 *
 * <p>{@link #pull} is called by one thread. Every pull is answered exactly once on the {@link PullListener}, also when
 * the transport fails or is closed; until then the local chunk belongs to the transport.
 */
public non-sealed interface ChunkPuller extends TargetPath {

    /** Returns how many pulls can be under way at once; the caller keeps to it. */
    int depth();

    /**
     * Starts a pull and returns at once.
     *
     * @param pullId names the pull in its answer
     * @param from the block at the peer; its fields are read before the call returns
     * @param localChunk chunk of the local pool, which belongs to this pull alone until it is answered
     * @param localOffset where in that chunk the block's first byte goes
     * @param more whether another pull follows at once, for which this one may wait: what is asked for together costs
     *     the peer one waking
     */
    void pull(long pullId, RemoteBlock from, int localChunk, int localOffset, boolean more);

    /** Starts a pull that no other one follows. */
    default void pull(long pullId, RemoteBlock from, int localChunk, int localOffset) {
        pull(pullId, from, localChunk, localOffset, false);
    }
}
