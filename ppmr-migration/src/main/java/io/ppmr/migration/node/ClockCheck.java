package io.ppmr.migration.node;

import io.ppmr.protocol.control.Finding;
import java.util.concurrent.TimeUnit;

/**
 * Compares the clock of a target with the querying node's. The target read its clock between the query and the answer.
 * Only a time outside of this interval shows a difference of the clocks, however long the target took to answer.
 * Stateless, for any thread.
 */
public final class ClockCheck {
    private static final long LIMIT_MS = 2000;

    private ClockCheck() {}

    /**
     * Compares the clocks. All times are milliseconds since the epoch.
     *
     * @param askedMs this node's clock before the query was sent
     * @param targetMs target's clock, from its answer
     * @param answeredMs this node's clock after the answer arrived
     */
    public static Finding finding(long askedMs, long targetMs, long answeredMs) {
        long apartMs = Math.max(0, Math.max(askedMs - targetMs, targetMs - answeredMs));
        return apartMs <= LIMIT_MS
                ? Finding.ok(
                        "clock",
                        "the clocks are at most " + seconds(LIMIT_MS) + " s apart, within the precision of this check")
                : Finding.warn(
                        "clock",
                        "the clocks are at least " + seconds(apartMs)
                                + " s apart: the job's time jumps, and the times in the" + " nodes' logs do not match",
                        "synchronise both nodes' clocks (chrony, systemd-timesyncd)");
    }

    private static long seconds(long ms) {
        return TimeUnit.MILLISECONDS.toSeconds(ms);
    }
}
