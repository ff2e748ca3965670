package io.ppmr.transaction.rules;

import java.util.concurrent.TimeUnit;

/**
 * The times of a driver, in nanoseconds.
 *
 * @param resendNs interval after which an unanswered message is sent again
 * @param retryNs interval after which a failed effect is tried again
 * @param reportNs interval of the reports about held ranks
 * @param silenceLimitNs silence after which this side considers a link lost
 * @param pauseBudgetNs coordinator: time for which the originals may be held before a decision
 * @param fenceDelayNs participant: time for which the source must be lost before it may be fenced
 * @param fenceDeadlineNs participant: time for the fence command after the delay; 0 without a fence command
 */
public record TransactionTimes(
        long resendNs,
        long retryNs,
        long reportNs,
        long silenceLimitNs,
        long pauseBudgetNs,
        long fenceDelayNs,
        long fenceDeadlineNs) {
    /** Longest time of a promise. No fence window may need a longer one. */
    public static final long LONGEST_PROMISE_NS = TimeUnit.HOURS.toNanos(6);

    /** Returns the production times, without a fence command. */
    public static TransactionTimes standard(long silenceLimitNs, long pauseBudgetNs) {
        return new TransactionTimes(
                TimeUnit.SECONDS.toNanos(1),
                TimeUnit.MILLISECONDS.toNanos(500),
                TimeUnit.SECONDS.toNanos(30),
                silenceLimitNs,
                pauseBudgetNs,
                0,
                0);
    }

    /** Returns the times with those of a fence command. */
    public TransactionTimes withFence(long delayNs, long deadlineNs) {
        return new TransactionTimes(resendNs, retryNs, reportNs, silenceLimitNs, pauseBudgetNs, delayNs, deadlineNs);
    }

    /** Returns the time after its loss in which a participant may fence the source, or 0 if it never does. */
    public long fenceWindowNs() {
        return fenceDeadlineNs == 0 ? 0 : fenceDelayNs + fenceDeadlineNs;
    }
}
