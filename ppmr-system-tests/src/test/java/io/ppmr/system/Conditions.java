package io.ppmr.system;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Waits for what another process or thread brings about. */
final class Conditions {
    private static final long DEADLINE_NS = TimeUnit.SECONDS.toNanos(20);
    private static final long PAUSE_NS = TimeUnit.MILLISECONDS.toNanos(2);

    private static final long LONG_DEADLINE_NS = TimeUnit.SECONDS.toNanos(60);

    private Conditions() {}

    /** Asks until the answer is yes, for a minute; what fails then says what was waited for. */
    static void until(String what, Callable<Boolean> question) throws Exception {
        long deadlineNs = System.nanoTime() + LONG_DEADLINE_NS;
        while (!question.call()) {
            if (System.nanoTime() - deadlineNs > 0) {
                throw new AssertionError("within 60 s it has not come about that " + what);
            }
            LockSupport.parkNanos(PAUSE_NS);
        }
    }

    /** Asks until the answer is no failure and not null. */
    static <T> T get(Callable<T> question) throws Exception {
        long deadlineNs = System.nanoTime() + DEADLINE_NS;
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
            if (System.nanoTime() - deadlineNs > 0) {
                throw new AssertionError("what was waited for has not come about within 20 s");
            }
            LockSupport.parkNanos(PAUSE_NS);
        }
    }
}
