package io.ppmr.testbed;

import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;

/**
 * Waits for a condition that another process or thread brings about. It is for any thread. An interrupt ends the wait.
 * At the limit it throws a {@link TimeoutException}. The gate counts a test that failed in this way as too slow, and
 * any other failure as wrong.
 */
public final class Conditions {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Duration SHORT_LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final long PAUSE_NS = 2_000_000;

    private Conditions() {}

    /** Polls until the answer is yes, for a minute ({@link Patience}). The failure names the condition. */
    public static void until(String what, Callable<Boolean> question) throws Exception {
        until(LIMIT, what, question);
    }

    /** Polls until the answer is yes. Throws {@link TimeoutException} after the limit. */
    public static void until(Duration limit, String what, Callable<Boolean> question) throws Exception {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        while (!question.call()) {
            pause(deadlineNs, "within " + limit.toSeconds() + " s it has not come about that " + what);
        }
    }

    /** Polls until the answer is no failure and not null, for 20 s. */
    public static <T> T get(Callable<T> question) throws Exception {
        long deadlineNs = System.nanoTime() + SHORT_LIMIT.toNanos();
        while (true) {
            try {
                T answer = question.call();
                if (answer != null) {
                    return answer;
                }
            } catch (Exception e) {
                if (System.nanoTime() - deadlineNs > 0) {
                    throw e;
                }
            }
            pause(deadlineNs, "what was waited for has not come about within " + SHORT_LIMIT.toSeconds() + " s");
        }
    }

    private static void pause(long deadlineNs, String failure) throws TimeoutException, InterruptedException {
        if (System.nanoTime() - deadlineNs > 0) {
            throw new TimeoutException(failure);
        }
        LockSupport.parkNanos(PAUSE_NS);
        if (Thread.interrupted()) {
            throw new InterruptedException("interrupted: " + failure);
        }
    }
}
