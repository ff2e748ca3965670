package io.ppmr.transaction;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * An operator's word on its way to a migration's thread, and the answer on its way back. Made by the thread that asks,
 * answered once by the migration's.
 */
public final class OperatorCall {
    private final OperatorDecision word;
    private final boolean carryOut;
    private final String by;
    private final long patienceNs;
    private final CompletableFuture<Resolution> answer = new CompletableFuture<>();
    private long answerByNs;

    /**
     * @param carryOut whether it is to be done; else only what it would mean is asked
     * @param by who asks, for the log
     * @param patienceNs after how long from its being followed it is answered that ranks are still held
     */
    public OperatorCall(OperatorDecision word, boolean carryOut, String by, long patienceNs) {
        this.word = word;
        this.carryOut = carryOut;
        this.by = by;
        this.patienceNs = patienceNs;
    }

    /** What the operator says. */
    public OperatorDecision word() {
        return word;
    }

    /** Whether it is to be done. */
    public boolean carriesOut() {
        return carryOut;
    }

    /** Who asks. */
    public String by() {
        return by;
    }

    /** The migration's thread follows it from now on. */
    public void followed(long nowNs) {
        answerByNs = nowNs + patienceNs;
    }

    /** Whether the operator has waited long enough for it. */
    public boolean isDue(long nowNs) {
        return nowNs - answerByNs >= 0;
    }

    /** The answer; a second one is not heard. */
    public void answer(Resolution resolution) {
        answer.complete(resolution);
    }

    /**
     * Waits for the answer.
     *
     * @param atMostNs beyond the patience that it was made with
     * @return null if there is none in time
     */
    public Resolution await(long atMostNs) throws InterruptedException {
        try {
            return answer.get(patienceNs + atMostNs, TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            return null;
        } catch (ExecutionException e) {
            throw new IllegalStateException("an operator's word broke off", e.getCause());
        }
    }
}
