package io.ppmr.transaction;

import java.io.IOException;
import java.time.Duration;
import java.util.Collection;

/** What to answer to an operator who speaks of a migration that is not open here. */
public final class OpenMigrations {
    private static final int LEAST_OF_ID = 4;

    private OpenMigrations() {}

    /** Whether an operator means this migration: by its name, or at least the first four characters of it. */
    public static boolean isNamed(String id, String said) {
        return id.equals(said) || (said.length() >= LEAST_OF_ID && id.startsWith(said));
    }

    /** The answer where the migration's thread gives none in time. */
    public static Resolution silent(String id, Duration limit) {
        return new Resolution(
                id,
                Resolution.Result.STILL_HELD,
                "Migration " + id + " has not answered within " + limit.toSeconds() + " s more: a command that it waits"
                        + " for may hang; the log says which.");
    }

    /**
     * Why nothing can be decided.
     *
     * @param open those that are
     */
    public static Resolution notOpen(String said, TransactionJournal journal, Collection<String> open)
            throws IOException {
        String known = open.isEmpty() ? "No migration is open here." : "Open here: " + String.join(", ", open) + ".";
        Outcome outcome = null;
        for (TransactionRecord record : journal.records(said)) {
            outcome = record instanceof TransactionRecord.Done done ? done.outcome() : outcome;
        }
        String text = outcome == null
                ? "Migration '" + said + "' is not known here: `ppmr status` lists those that are open, with their"
                        + " names, and `ppmr history` those that are over. "
                : "Migration " + said + " is decided and over: it "
                        + (outcome == Outcome.COMMITTED ? "has committed" : "was rolled back") + ". ";
        return new Resolution(said, Resolution.Result.REFUSED, text + known);
    }
}
