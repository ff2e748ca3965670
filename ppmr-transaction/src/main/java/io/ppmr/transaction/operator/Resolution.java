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
 * @param result how far it has come
 * @param text for the operator; whole sentences
 * @param ended how the migration has ended, of one that is over; null of any other
 */
public record Resolution(String migrationId, ResolutionResult result, String text, FinalOutcome ended) {
    /** The answer for a migration that is not known to be over. */
    public Resolution(String migrationId, ResolutionResult result, String text) {
        this(migrationId, result, text, null);
    }

    /** The results of a decision. */
    public enum ResolutionResult {
        /** Nothing was changed: it cannot be decided here, or not so. */
        REFUSED,
        /** Nothing was changed: the text says what it would mean. */
        EXPLAINED,
        /** The decision is carried out: nothing is held here. */
        DONE,
        /** The decision is noted, but ranks stay held: the text names the peer. */
        STILL_HELD
    }

    /** The answer to a word that is not followed, or only explained. */
    public static Resolution of(String migrationId, OperatorDecision.DecisionPreview ruling) {
        return new Resolution(
                migrationId, ruling.allows() ? ResolutionResult.EXPLAINED : ResolutionResult.REFUSED, ruling.text());
    }

    /** The answer where the migration's thread gives none in time. */
    public static Resolution silent(String id, Duration limit) {
        return new Resolution(
                id,
                ResolutionResult.STILL_HELD,
                "Migration " + id + " has not answered within " + limit.toSeconds() + " s more: a command that it waits"
                        + " for may hang; the log says which.");
    }

    /**
     * The answer to an operator who speaks of a migration that is not open here.
     *
     * @param open those that are
     */
    public static Resolution notOpen(String said, TransactionJournal journal, Collection<String> open)
            throws IOException {
        String known = open.isEmpty() ? "No migration is open here." : "Open here: " + String.join(", ", open) + ".";
        FinalOutcome outcome = TransactionRecord.last(journal.records(said), TransactionRecord.Done.class)
                .map(TransactionRecord.Done::outcome)
                .orElse(null);
        String text = outcome == null
                ? "Migration '" + said + "' is not known here: `ppmr status` lists those that are open, with their"
                        + " names, and `ppmr history` those that are over. "
                : "Migration " + said + " is decided and over: it "
                        + (outcome == FinalOutcome.COMMITTED ? "has committed" : "was rolled back") + ". ";
        return new Resolution(said, ResolutionResult.REFUSED, text + known, outcome);
    }
}
