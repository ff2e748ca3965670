package io.ppmr.transaction.rules;

import java.util.concurrent.TimeUnit;

/**
 * The times of a driver, in nanoseconds.
 *
 * @param resendNs after how long an unanswered message is said again
 * @param retryNs after how long an effect that could not be carried out is tried again
 * @param sayNs how often it is said what is held and why
 * @param silenceLimitNs after how much silence this side takes a link for lost
 * @param pauseBudgetNs coordinator: how long the originals may be held before a decision
 * @param fenceDelayNs participant: how long the source must be lost before it may be fenced
 * @param fenceDeadlineNs participant: how long the fence command may take, from the end of the delay; 0 without one
 */
public record TransactionTimes(
        long resendNs,
        long retryNs,
        long sayNs,
        long silenceLimitNs,
        long pauseBudgetNs,
        long fenceDelayNs,
        long fenceDeadlineNs) {
    /** For longer no participant promises anything; no fence window may need a longer promise. */
    public static final long LONGEST_PROMISE_NS = TimeUnit.HOURS.toNanos(6);

    /** The usual ones, without a fence command. */
    public static TransactionTimes usual(long silenceLimitNs, long pauseBudgetNs) {
        return new TransactionTimes(
                TimeUnit.SECONDS.toNanos(1),
                TimeUnit.MILLISECONDS.toNanos(500),
                TimeUnit.SECONDS.toNanos(30),
                silenceLimitNs,
                pauseBudgetNs,
                0,
                0);
    }

    /** The same with a fence command. */
    public TransactionTimes withFence(long delayNs, long deadlineNs) {
        return new TransactionTimes(resendNs, retryNs, sayNs, silenceLimitNs, pauseBudgetNs, delayNs, deadlineNs);
    }

    /** Returns the time within which a participant may fence a source that it has lost; 0 if it never does. */
    public long fenceWindowNs() {
        return fenceDeadlineNs == 0 ? 0 : fenceDelayNs + fenceDeadlineNs;
    }
}
