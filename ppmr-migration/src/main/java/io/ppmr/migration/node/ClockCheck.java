package io.ppmr.migration.node;

import io.ppmr.protocol.control.Finding;
import java.util.concurrent.TimeUnit;

/**
 * Compares the clock of a target with that of the node that asks it. The target read its clock between the question and
 * the answer. So that alone which lies outside of this interval is a difference of the clocks, however long the target
 * took to answer. Stateless, for any thread.
 */
public final class ClockCheck {
    private static final long LIMIT_MS = 2000;

    private ClockCheck() {}

    /**
     * Compares; all times are milliseconds since the epoch.
     *
     * @param askedMs this node's clock before the question was sent
     * @param targetMs the clock of the target, which its answer has
     * @param answeredMs this node's clock after the answer came
     */
    public static Finding finding(long askedMs, long targetMs, long answeredMs) {
        long apartMs = Math.max(0, Math.max(askedMs - targetMs, targetMs - answeredMs));
        return apartMs <= LIMIT_MS
                ? Finding.ok("clock", "the two are at most " + seconds(LIMIT_MS) + " s apart, as far as can be told")
                : Finding.warn(
                        "clock",
                        "the clocks are at least " + seconds(apartMs) + " s apart: the job sees its time jump, and the"
                                + " logs of the two nodes do not fit together",
                        "synchronise both nodes' clocks (chrony, systemd-timesyncd)");
    }

    private static long seconds(long ms) {
        return TimeUnit.MILLISECONDS.toSeconds(ms);
    }
}
