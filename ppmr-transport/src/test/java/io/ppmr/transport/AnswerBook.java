package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Records the result of each pull. */
public final class AnswerBook implements PullListener {
    public static final String PULLED = "pulled";

    private final Map<Long, String> answers = new ConcurrentHashMap<>();
    private final AtomicInteger count = new AtomicInteger();

    @Override
    public void onPullCompleted(long pullId) {
        note(pullId, PULLED);
    }

    @Override
    public void onPullFailed(long pullId, String reason) {
        note(pullId, reason);
    }

    private void note(long pullId, String answer) {
        // Counted first, so that a thread that sees the last result sees the complete count.
        count.incrementAndGet();
        answers.put(pullId, answer);
    }

    /** Returns the result of a pull; null if there is none yet. */
    public String answer(long pullId) {
        return answers.get(pullId);
    }

    public int count() {
        return count.get();
    }

    /** Waits until each of these pulls has a result, and requires that none has two. */
    public void requireEachOnce(int pulls) throws Exception {
        Loopback.until("every pull is answered", () -> answers.size() == pulls);
        assertEquals(pulls, count.get(), "answers");
    }
}
