package io.ppmr.testbed;

import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;

/**
 * Waits for what another process or thread brings about. Any thread; an interrupt ends the wait. A limit ends with a
 * {@link TimeoutException}: the gate takes a test that failed so for too slow, and any other for wrong.
 */
public final class Conditions {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final Duration SHORT_LIMIT = Patience.of(Duration.ofSeconds(60));
    private static final long PAUSE_NS = 2_000_000;

    private Conditions() {}

    /** Asks until the answer is yes, for a minute ({@link Patience}); what fails then says what was waited for. */
    public static void until(String what, Callable<Boolean> question) throws Exception {
        until(LIMIT, what, question);
    }

    /** Asks until the answer is yes; throws {@link TimeoutException} when the limit has passed. */
    public static void until(Duration limit, String what, Callable<Boolean> question) throws Exception {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        while (!question.call()) {
            pause(deadlineNs, "within " + limit.toSeconds() + " s it has not come about that " + what);
        }
    }

    /** Asks until the answer is no failure and not null, for 20 s. */
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
