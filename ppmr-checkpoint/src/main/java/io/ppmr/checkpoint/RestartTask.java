package io.ppmr.checkpoint;

import java.nio.file.Path;
import java.time.Duration;

/**
 * What to restore, and wherefrom.
 *
 * @param rank the rank's number
 * @param user the job's user, as whom the restart runs where the tool permits
 * @param imageDirectory the rank's directory inside the mounted filesystem
 * @param workDirectory a directory of the service's outside the mount, for the tool's own files and its log; see
 *     {@link WorkDirectories}
 * @param deadline how long the command may take in all
 */
public record RestartTask(int rank, JobUser user, Path imageDirectory, Path workDirectory, Duration deadline) {}
