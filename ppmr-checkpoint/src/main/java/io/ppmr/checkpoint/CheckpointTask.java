package io.ppmr.checkpoint;

import java.nio.file.Path;
import java.time.Duration;

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
 */
public record CheckpointTask(
        int rank, ProcessIdentity root, JobUser user, Path imageDirectory, Path workDirectory, Duration deadline) {}
