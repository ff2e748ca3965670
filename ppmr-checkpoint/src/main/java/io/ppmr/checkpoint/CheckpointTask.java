package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;

/**
 * What to checkpoint, and whereto.
 *
 * @param rank the rank's number
 * @param root the root of the rank's process tree, checked again before every signal; its user must be {@code user}
 * @param user the job's user
 * @param imageDirectory the rank's directory inside the mounted filesystem
 * @param workDirectory a directory of the service's outside the mount, for the tool's own files and its log; see
 *     {@link WorkDirectories}
 * @param deadline how long the command may take in all
 * @param stoppedByJob processes that were found stopped before anything was done to the job; those of this rank that
 *     are so still when the command is started stay so when the rank is released
 */
public record CheckpointTask(
        int rank,
        ProcessIdentity root,
        JobUser user,
        Path imageDirectory,
        Path workDirectory,
        Duration deadline,
        Set<ProcessIdentity> stoppedByJob) {
    public CheckpointTask {
        stoppedByJob = Set.copyOf(stoppedByJob);
    }
}
