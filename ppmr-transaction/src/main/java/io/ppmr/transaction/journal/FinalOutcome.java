package io.ppmr.transaction.journal;

/** The two outcomes of a migration. An operator can decide for either. */
public enum FinalOutcome {
    /** The copies run. */
    COMMITTED,
    /** The originals run. */
    ROLLED_BACK
}
