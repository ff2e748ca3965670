package io.ppmr.transaction;

import java.util.List;

/**
 * What the coordinator (S) and the participants (T) of a migration say to each other; docs/transaction.md. Each belongs
 * to one attempt of one migration. All may come twice, late, or never.
 */
public sealed interface TransactionMessage {
    /** Which migration. */
    String migrationId();

    /** Which attempt of it, from 1. */
    int attempt();

    /**
     * S to T: prepare.
     *
     * @param participants all who take part, in the plan's order; the first one has the duty to take over
     * @param self the receiver's name among them
     */
    record Begin(String migrationId, int attempt, List<String> participants, String self)
            implements TransactionMessage {
        public Begin {
            participants = List.copyOf(participants);
        }
    }

    /**
     * T to S: it has begun.
     *
     * @param fenceWindowNs how long after it has lost the source it may still fence it: its fence delay plus deadline
     * @param silenceLimitNs after how much silence it takes a link for lost
     */
    record Accepted(String migrationId, int attempt, long fenceWindowNs, long silenceLimitNs)
            implements TransactionMessage {}

    /** T to S: the vote. All copies are restored and held, every byte and CRC is accounted for. */
    record Prepared(String migrationId, int attempt) implements TransactionMessage {}

    /** S to T: the last round; are the copies still held? */
    record Confirm(String migrationId, int attempt) implements TransactionMessage {}

    /** T to S: yes, proved just now. */
    record StillHeld(String migrationId, int attempt) implements TransactionMessage {}

    /** T to S: no, a copy has died or moves. */
    record NotHeld(String migrationId, int attempt, String reason) implements TransactionMessage {}

    /** S to T, or the first T to another: decided; let the copies run. */
    record Commit(String migrationId, int attempt) implements TransactionMessage {}

    /** The answer: they run. */
    record Committed(String migrationId, int attempt) implements TransactionMessage {}

    /** S to T, or the first T to another: given up; end the copies. */
    record RollBack(String migrationId, int attempt, String reason) implements TransactionMessage {}

    /** The answer, or T's own failure before its vote: nothing is left here. */
    record RolledBack(String migrationId, int attempt, String reason) implements TransactionMessage {}

    /**
     * T to another T: the source does not answer; where do you stand?
     *
     * @param round 0, or the name of the first T's fence window: then it also asks for a promise
     * @param promiseNs for how long, from receipt, the promise binds: no rollback on the source's word
     */
    record Ask(String migrationId, int attempt, long round, long promiseNs) implements TransactionMessage {}

    /** First T to another: the source is off; from your answer on my word decides. */
    record TakeOver(String migrationId, int attempt) implements TransactionMessage {}

    /** The answer to {@link Ask} and {@link TakeOver}; {@code round} is the question's, 0 for a take-over. */
    record Standing(String migrationId, int attempt, Where where, long round) implements TransactionMessage {}

    /** Where a participant stands. */
    enum Where {
        /** It has voted. */
        PREPARED,
        /** It has voted, and keeps the promise that was asked for. */
        PROMISED,
        /** It has voted and listens only to the first participant from now on. */
        BOUND,
        /** Decided, its copies run. */
        COMMITTED,
        /** It has nothing and will never have anything of this attempt. */
        ROLLED_BACK
    }
}
