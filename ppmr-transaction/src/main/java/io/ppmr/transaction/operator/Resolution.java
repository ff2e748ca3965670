package io.ppmr.transaction.operator;

import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.time.Duration;
import java.util.Collection;

/**
 * The answer to an operator's decision for a migration. Immutable.
 *
 * @param migrationId its whole name
 * @param result the result so far
 * @param text text for the operator; whole sentences
 * @param ended outcome of a migration that is over, otherwise null
 */
public record Resolution(String migrationId, ResolutionResult result, String text, FinalOutcome ended) {
    /** Makes the answer for a migration that may not be over. */
    public Resolution(String migrationId, ResolutionResult result, String text) {
        this(migrationId, result, text, null);
    }

    /** The results of a decision. */
    public enum ResolutionResult {
        /** Nothing was changed. The decision is not possible, or not on this node. */
        REFUSED,
        /** Nothing was changed. The text explains what the decision would mean. */
        EXPLAINED,
        /** The decision was carried out, and nothing is held here. */
        DONE,
        /** The decision is noted, but ranks stay held. The text names the peer. */
        STILL_HELD
    }

    /** Makes the answer to a decision that is refused or only previewed. */
    public static Resolution of(String migrationId, OperatorDecision.DecisionPreview preview) {
        return new Resolution(
                migrationId, preview.allows() ? ResolutionResult.EXPLAINED : ResolutionResult.REFUSED, preview.text());
    }

    /** Makes the answer for the case that the migration's thread does not answer in time. */
    public static Resolution silent(String id, Duration limit) {
        return new Resolution(
                id,
                ResolutionResult.STILL_HELD,
                "Migration " + id + " has not answered within another " + limit.toSeconds() + " s. A command that it"
                        + " waits for may hang; the log names it.");
    }

    /**
     * Makes the answer for a migration that is not open here.
     *
     * @param open names of the open migrations
     */
    public static Resolution notOpen(String name, TransactionJournal journal, Collection<String> open)
            throws IOException {
        String known = open.isEmpty() ? "No migration is open here." : "Open here: " + String.join(", ", open) + ".";
        FinalOutcome outcome = TransactionRecord.last(journal.records(name), TransactionRecord.Done.class)
                .map(TransactionRecord.Done::outcome)
                .orElse(null);
        String text = outcome == null
                ? "Migration '" + name + "' is not known here: `ppmr status` lists open migrations, and `ppmr history`"
                        + " those that are over. "
                : "Migration " + name + " is decided and over: it "
                        + (outcome == FinalOutcome.COMMITTED ? "has committed" : "was rolled back") + ". ";
        return new Resolution(name, ResolutionResult.REFUSED, text + known, outcome);
    }
}
