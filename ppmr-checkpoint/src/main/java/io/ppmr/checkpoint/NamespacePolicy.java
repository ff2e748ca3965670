package io.ppmr.checkpoint;

/** Whether a rank is restored in a PID and mount namespace of its own, where every PID is free. */
public enum NamespacePolicy {
    /** Where the tool restores the old PIDs, which may be taken on this node: with CRIU. */
    AUTO,
    ALWAYS,
    NEVER
}
