package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import org.slf4j.LoggerFactory;

/** A rank all of whose processes are stopped: the originals after a checkpoint, or the copies after a restart. */
public sealed interface HeldRank permits HeldProcesses {

    int rank();

    /** All its processes, the root first; PIDs as this node's service sees them. */
    List<ProcessIdentity> processes();

    /** Returns those of them that the job itself had stopped before the rank was held: they are never set going. */
    Set<ProcessIdentity> stoppedByJob();

    /** The same rank with these as {@link #stoppedByJob}. */
    HeldRank leavingStopped(Set<ProcessIdentity> stopped);

    /**
     * Proves anew that every process is alive, that every one of its threads is stopped, and that none has run since
     * the rank was found held; throws and says which is not.
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

    /** Lets the processes run (SIGCONT), but for {@link #stoppedByJob}. */
    void release() throws CheckpointException;

    /**
     * Ends the processes (SIGKILL) and returns when they are gone; throws by name what is left after {@code deadline}.
     */
    void end(Duration deadline) throws CheckpointException, InterruptedException;
}
