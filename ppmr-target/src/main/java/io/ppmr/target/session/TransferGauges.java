package io.ppmr.target.session;

import io.ppmr.target.metrics.TargetHops;

/**
 * What a transfer has under way just now, told to the service's meters as changes: several transfers add to the same
 * ones. Owned by the session's agent, and by whoever ends the transfer after it.
 */
final class TransferGauges {
    private final TargetHops hops;
    private int queued;
    private int inFlight;
    private long stagingUsedBytes;
    private long stagedBytes;

    TransferGauges(TargetHops hops) {
        this.hops = hops;
    }

    /**
     * Shows what has changed.
     *
     * @param nowQueued pulls that wait
     * @param nowInFlight pulls under way
     * @param nowUsedBytes staging that is in use
     * @param nowStagedBytes what has gone to staging so far
     */
    void show(int nowQueued, int nowInFlight, long nowUsedBytes, long nowStagedBytes) {
        if (nowQueued != queued || nowInFlight != inFlight || nowUsedBytes != stagingUsedBytes) {
            hops.underWay(nowQueued - queued, nowInFlight - inFlight, nowUsedBytes - stagingUsedBytes);
            queued = nowQueued;
            inFlight = nowInFlight;
            stagingUsedBytes = nowUsedBytes;
        }
        if (nowStagedBytes > stagedBytes) {
            hops.staged(nowStagedBytes - stagedBytes);
            stagedBytes = nowStagedBytes;
        }
    }
}
