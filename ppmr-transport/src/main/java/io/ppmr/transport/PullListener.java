package io.ppmr.transport;

/**
 * Receives the results of pulls (RDMA Reads), on the transport's own threads. Must not throw and must not block for
 * long.
 */
public interface PullListener {

    /** The block is in its local chunk. */
    void onPullCompleted(long pullId);

    /** The block did not arrive. {@code reason} names the peer and the cause. */
    void onPullFailed(long pullId, String reason);
}
