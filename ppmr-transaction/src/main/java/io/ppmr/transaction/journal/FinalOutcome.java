package io.ppmr.transaction.journal;

/** The two ways in which a migration ends, and what an operator can decide for. */
public enum FinalOutcome {
    /** The copies run. */
    COMMITTED,
    /** The originals run. */
    ROLLED_BACK
}
