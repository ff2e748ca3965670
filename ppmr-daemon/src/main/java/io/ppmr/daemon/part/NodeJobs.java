package io.ppmr.daemon.part;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.JobCheckpoint;
import io.ppmr.migration.target.JobRestarts;
import java.io.IOException;
import java.util.Optional;

/**
 * The jobs over several nodes, for the part that coordinates them. It is for any thread.
 *
 * @param members the jobs with pods on this node
 * @param checkpoints makes checkpoints of their pods, at a source
 * @param restarts makes restarts of their pods, at a target
 */
public record NodeJobs(MemberJobs members, Optional<Checkpoints> checkpoints, Optional<JobRestarts> restarts) {
    /** A service that neither makes checkpoints nor restarts. */
    public static final NodeJobs NONE = new NodeJobs(MemberJobs.NONE, Optional.empty(), Optional.empty());

    /** Makes checkpoints of jobs. */
    @FunctionalInterface
    public interface Checkpoints {
        /** Prepares a checkpoint of a job's pods on this node. Nothing is touched. */
        JobCheckpoint of(JobName job, JobCheckpoint.CheckpointOrder order)
                throws IOException, CheckpointException, RequestException;
    }
}
