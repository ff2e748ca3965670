package io.ppmr.transaction;

/** What has just been proved about all originals of a migration together, thread by thread. */
public enum Originals {
    /** Every one is alive and held, and has not run since it was found held. */
    HELD,
    /** Every one is alive; some run, or have run since they were found held. */
    ALIVE,
    /** At least one is gone, or cannot be proved to be alive. */
    DEAD
}
