package io.ppmr.transaction.operator;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The inbox of operators' decisions for one migration, which are answered here. {@link #take} may be called by any
 * thread, the others are for the migration's.
 */
public final class OperatorInbox {
    private static final Logger LOG = LoggerFactory.getLogger(OperatorInbox.class);

    /** The migration that a decision is for; called on its thread. */
    public interface DecidableMigration {
        /** Returns whether it would follow the decision, and what that would mean. */
        OperatorDecision.DecisionPreview ruling(OperatorDecision word);

        /** Follows the word. */
        void resolve(OperatorDecision word);

        /** Returns true if nothing is held here. */
        boolean isOver();

        /** Describes its end in a sentence. */
        String ending();

        /** The peer that ranks are held for, or null. */
        String waitsFor();

        /** Returns true if what was asked for is still on its way: a fence command runs. */
        boolean seeksProof();
    }

    private final String id;
    private final DecidableMigration migration;
    private final Queue<PendingDecision> incoming = new ConcurrentLinkedQueue<>();
    private final List<PendingDecision> followed = new ArrayList<>();
    private final List<PendingDecision> fenced = new ArrayList<>();
    private volatile boolean closed;

    public OperatorInbox(String migrationId, DecidableMigration migration) {
        this.id = migrationId;
        this.migration = migration;
    }

    /** Takes a word. Any thread; false once the migration's thread has ended. */
    public boolean take(PendingDecision call) {
        incoming.add(call);
        return !closed || !incoming.remove(call);
    }

    /** Returns true while a word that is followed waits for its answer. The migration's thread. */
    public boolean isAsked() {
        return !followed.isEmpty();
    }

    /** Hears what has come in, and answers what can be answered. */
    public void work(long nowNs) {
        for (PendingDecision call = incoming.poll(); call != null; call = incoming.poll()) {
            hear(call, nowNs);
        }
        followed.removeIf(call -> isAnswered(call, nowNs));
    }

    private void hear(PendingDecision call, long nowNs) {
        OperatorDecision.DecisionPreview ruling = migration.ruling(call.word());
        if (!ruling.allows() || !call.carriesOut()) {
            call.answer(Resolution.of(id, ruling));
            return;
        }
        LOG.warn("migration {}: {} decides: {}: {}", id, call.by(), call.word(), ruling.text());
        call.followed(nowNs);
        followed.add(call);
        if (ruling.how() == OperatorDecision.DecisionPreview.How.AFTER_FENCE) {
            fenced.add(call);
        }
        migration.resolve(call.word());
    }

    private boolean isAnswered(PendingDecision call, long nowNs) {
        if (migration.isOver()) {
            call.answer(new Resolution(id, Resolution.ResolutionResult.DONE, migration.ending()));
            return true;
        }
        boolean noProof = fenced.contains(call)
                && !migration.seeksProof()
                && migration.ruling(call.word()).allows();
        if (noProof) {
            call.answer(new Resolution(
                    id,
                    Resolution.ResolutionResult.STILL_HELD,
                    "The source was not proved off by the fence command, or a target has not promised to hold on; "
                            + migration.waitsFor()));
            return true;
        }
        if (call.isDue(nowNs)) {
            call.answer(new Resolution(
                    id,
                    Resolution.ResolutionResult.STILL_HELD,
                    "It is noted, but ranks are still held: "
                            + (migration.waitsFor() == null
                                    ? "it is being carried out; `ppmr status` says how far it is"
                                    : migration.waitsFor())));
            return true;
        }
        return false;
    }

    /** The migration's thread ends: what is still here is answered. */
    public void close() {
        closed = true;
        List<PendingDecision> left = new ArrayList<>(followed);
        for (PendingDecision call = incoming.poll(); call != null; call = incoming.poll()) {
            left.add(call);
        }
        left.forEach(call -> call.answer(new Resolution(
                id,
                followed.contains(call) ? Resolution.ResolutionResult.DONE : Resolution.ResolutionResult.REFUSED,
                migration.ending())));
        followed.clear();
    }

    /**
     * An operator's word on its way to a migration's thread, and the answer on its way back. Made by the thread that
     * asks, answered once by the migration's.
     */
    public static final class PendingDecision {
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
        public PendingDecision(OperatorDecision word, boolean carryOut, String by, long patienceNs) {
            this.word = word;
            this.carryOut = carryOut;
            this.by = by;
            this.patienceNs = patienceNs;
        }

        /** Returns the operator's decision. */
        public OperatorDecision word() {
            return word;
        }

        /** Returns true if it is to be done. */
        public boolean carriesOut() {
            return carryOut;
        }

        /** Returns the user who asks. */
        public String by() {
            return by;
        }

        /** The migration's thread follows it from now on. */
        public void followed(long nowNs) {
            answerByNs = nowNs + patienceNs;
        }

        /** Returns true if the operator has waited long enough for it. */
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
}
