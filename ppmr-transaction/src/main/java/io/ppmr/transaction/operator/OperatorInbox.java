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
 * The inbox of operators' decisions for one migration, which also answers them. Any thread may call {@link #submit}.
 * The migration's thread calls the other methods.
 */
public final class OperatorInbox {
    private static final Logger LOG = LoggerFactory.getLogger(OperatorInbox.class);

    /** The migration that a decision is for. Called on its thread. */
    public interface DecidableMigration {
        /** Returns whether the decision would be followed, and what that would mean. */
        OperatorDecision.DecisionPreview preview(OperatorDecision decision);

        /** Follows the decision. */
        void resolve(OperatorDecision decision);

        /** Returns true if nothing is held here. */
        boolean isOver();

        /** Describes the migration's end in a sentence. */
        String describeEnd();

        /** Describes the peer that ranks are held for, or returns null. */
        String waitsFor();

        /** Returns true while the fence command of a decision runs. */
        boolean isSeekingProof();
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

    /** Adds a decision. Any thread. Returns false once the migration's thread ended. */
    public boolean submit(PendingDecision call) {
        incoming.add(call);
        return !closed || !incoming.remove(call);
    }

    /** Returns true while a followed decision waits for its answer. The migration's thread. */
    public boolean hasPending() {
        return !followed.isEmpty();
    }

    /** Handles new decisions, and sends the answers that are due. */
    public void process(long nowNs) {
        for (PendingDecision call = incoming.poll(); call != null; call = incoming.poll()) {
            handle(call, nowNs);
        }
        followed.removeIf(call -> isAnswered(call, nowNs));
    }

    private void handle(PendingDecision call, long nowNs) {
        OperatorDecision.DecisionPreview preview = migration.preview(call.decision());
        if (!preview.allows() || !call.carriesOut()) {
            call.answer(Resolution.of(id, preview));
            return;
        }
        LOG.warn("migration {}: {} decides: {}: {}", id, call.by(), call.decision(), preview.text());
        call.followed(nowNs);
        followed.add(call);
        if (preview.how() == OperatorDecision.DecisionPreview.How.AFTER_FENCE) {
            fenced.add(call);
        }
        migration.resolve(call.decision());
    }

    private boolean isAnswered(PendingDecision call, long nowNs) {
        if (migration.isOver()) {
            call.answer(new Resolution(id, Resolution.ResolutionResult.DONE, migration.describeEnd()));
            return true;
        }
        boolean noProof = fenced.contains(call)
                && !migration.isSeekingProof()
                && migration.preview(call.decision()).allows();
        if (noProof) {
            call.answer(new Resolution(
                    id,
                    Resolution.ResolutionResult.STILL_HELD,
                    "The source was not proved off by the fence command, or a target did not give its promise; "
                            + migration.waitsFor()));
            return true;
        }
        if (call.isDue(nowNs)) {
            call.answer(new Resolution(
                    id,
                    Resolution.ResolutionResult.STILL_HELD,
                    "The decision is noted, but ranks are still held: "
                            + (migration.waitsFor() == null
                                    ? "it is being carried out; see `ppmr status`"
                                    : migration.waitsFor())));
            return true;
        }
        return false;
    }

    /** Answers all decisions, because the migration's thread ends. */
    public void close() {
        closed = true;
        List<PendingDecision> left = new ArrayList<>(followed);
        for (PendingDecision call = incoming.poll(); call != null; call = incoming.poll()) {
            left.add(call);
        }
        left.forEach(call -> call.answer(new Resolution(
                id,
                followed.contains(call) ? Resolution.ResolutionResult.DONE : Resolution.ResolutionResult.REFUSED,
                migration.describeEnd())));
        followed.clear();
    }

    /**
     * An operator's decision on its way to a migration's thread, and the answer on its way back. The requesting thread
     * makes it, and the migration's thread answers it once.
     */
    public static final class PendingDecision {
        private final OperatorDecision decision;
        private final boolean carryOut;
        private final String by;
        private final long patienceNs;
        private final CompletableFuture<Resolution> answer = new CompletableFuture<>();
        private long answerByNs;

        /**
         * @param carryOut false if only a preview is requested
         *
         * @param by requester, for the log
         * @param patienceNs time after which a followed decision is answered, even if ranks are still held
         */
        public PendingDecision(OperatorDecision decision, boolean carryOut, String by, long patienceNs) {
            this.decision = decision;
            this.carryOut = carryOut;
            this.by = by;
            this.patienceNs = patienceNs;
        }

        /** Returns the operator's decision. */
        public OperatorDecision decision() {
            return decision;
        }

        /** Returns true if the decision must be carried out. */
        public boolean carriesOut() {
            return carryOut;
        }

        /** Returns the requester. */
        public String by() {
            return by;
        }

        /** Starts the time limit, because the migration's thread follows the decision. */
        public void followed(long nowNs) {
            answerByNs = nowNs + patienceNs;
        }

        /** Returns true if the time limit is over. */
        public boolean isDue(long nowNs) {
            return nowNs - answerByNs >= 0;
        }

        /** Answers the decision. A second answer is ignored. */
        public void answer(Resolution resolution) {
            answer.complete(resolution);
        }

        /**
         * Waits for the answer.
         *
         * @param atMostNs time beyond the time limit of this decision
         * @return null if no answer arrives in time
         */
        public Resolution await(long atMostNs) throws InterruptedException {
            try {
                return answer.get(patienceNs + atMostNs, TimeUnit.NANOSECONDS);
            } catch (TimeoutException e) {
                return null;
            } catch (ExecutionException e) {
                throw new IllegalStateException("an operator's decision failed", e.getCause());
            }
        }
    }
}
