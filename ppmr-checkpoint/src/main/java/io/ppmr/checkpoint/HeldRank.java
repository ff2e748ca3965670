package io.ppmr.checkpoint;

import java.time.Duration;
import java.util.List;
import org.slf4j.LoggerFactory;

/** A rank all of whose processes are stopped: the originals after a checkpoint, or the copies after a restart. */
public sealed interface HeldRank permits HeldProcesses {

    int rank();

    /** All its processes, the root first; PIDs as this node's service sees them. */
    List<ProcessIdentity> processes();

    /**
     * Proves anew that every process is alive and every one of its threads is stopped; throws and says which is not.
     */
    void requireHeld() throws CheckpointException;

    /** Whether {@link #requireHeld} proves it; the log says at level debug why not. */
    default boolean isHeld() {
        try {
            requireHeld();
            return true;
        } catch (CheckpointException e) {
            LoggerFactory.getLogger(HeldRank.class).debug("rank {}: {}", rank(), e.getMessage());
            return false;
        }
    }

    /** Lets the processes run (SIGCONT). */
    void release() throws CheckpointException;

    /**
     * Ends the processes (SIGKILL) and returns when they are gone; throws by name what is left after {@code deadline}.
     */
    void end(Duration deadline) throws CheckpointException, InterruptedException;
}
