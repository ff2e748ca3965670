package io.ppmr.transport;

/** Hears how pulls end, on the transport's own threads; must not throw and must not block for long. */
public interface PullListener {

    /** The block lies in its local chunk. */
    void pulled(long pullId);

    /** The block did not come; {@code reason} names the peer and the cause. */
    void pullFailed(long pullId, String reason);
}
