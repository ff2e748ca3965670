package io.ppmr.cluster.job;

/** The phase of a job over several nodes, as in its record. */
public enum JobPhase {
    /** Nothing is under way. The job runs, or nothing of it does. */
    RUNNING,
    /** All members are held for a checkpoint, or are about to be. */
    CHECKPOINT,
    /** A recovery: sources end the members that still run. Nothing was restored yet. */
    ENDING,
    /** Targets restore all members, and hold them. */
    RESTARTING,
    /** All members were restored. Targets release them, and nothing is restored again in this incarnation. */
    RELEASING;

    /** Returns true from the order of a restart or of a recovery until its end. */
    boolean isRestart() {
        return this == ENDING || this == RESTARTING || this == RELEASING;
    }

    /** Returns the phase as people read it. */
    public String word() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }
}
