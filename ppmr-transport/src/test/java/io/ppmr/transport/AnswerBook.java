package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Notes how each pull was answered. */
public final class AnswerBook implements PullListener {
    public static final String PULLED = "pulled";

    private final Map<Long, String> answers = new ConcurrentHashMap<>();
    private final AtomicInteger count = new AtomicInteger();

    @Override
    public void pulled(long pullId) {
        note(pullId, PULLED);
    }

    @Override
    public void pullFailed(long pullId, String reason) {
        note(pullId, reason);
    }

    private void note(long pullId, String answer) {
        // Counted first: whoever sees the last answer sees the whole count.
        count.incrementAndGet();
        answers.put(pullId, answer);
    }

    /** Returns how a pull was answered; null if it was not. */
    public String answer(long pullId) {
        return answers.get(pullId);
    }

    public int count() {
        return count.get();
    }

    /** Waits until each of these pulls was answered, and requires that none was answered twice. */
    public void requireEachOnce(int pulls) throws Exception {
        Loopback.until("every pull is answered", () -> answers.size() == pulls);
        assertEquals(pulls, count.get(), "answers");
    }
}
