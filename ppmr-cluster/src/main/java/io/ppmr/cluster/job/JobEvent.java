package io.ppmr.cluster.job;

import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import java.util.Map;
import java.util.Set;

/** An event that {@link JobRules} handle: a report, an order, or the loss of a node. Immutable. */
sealed interface JobEvent {
    /**
     * A source has these pods of the job now.
     *
     * @param members the number of pods of the job on all nodes
     * @param schedule its regular checkpoints
     */
    record Registered(String host, int members, Set<String> pods, JobRecord.JobSchedule schedule) implements JobEvent {
        public Registered {
            pods = Set.copyOf(pods);
        }
    }

    /**
     * A checkpoint is ordered.
     *
     * @param set the name of the set
     * @param holdSeconds how long a source holds its pods without GO
     */
    record CheckpointOrdered(String set, long holdSeconds) implements JobEvent {}

    /** A source holds all its pods, and their cables are out. */
    record Out(String host, long incarnation, long round) implements JobEvent {}

    /** A source has written its images. */
    record Imaged(String host, long incarnation, long round, NodeImages images, long nowMs) implements JobEvent {}

    /**
     * The round is void for a source.
     *
     * @param outcome VOID, or REFUSED if nothing was held
     */
    record Voided(String host, long incarnation, long round, RoundOutcome outcome, String reason) implements JobEvent {}

    /**
     * A restart is ordered.
     *
     * @param plan the pods that each node restores
     * @param number the number of the restart, greater than any before
     * @param basis the state from which the plan was made: services were asked for it before
     * @param isRecovery whether members may run, which are ended first
     */
    record RestartOrdered(String set, Map<String, Set<String>> plan, long number, PlanBasis basis, boolean isRecovery)
            implements JobEvent {}

    /** A source ended all pods of the job on its node, for a recovery. */
    record PodsEnded(String host, long restart) implements JobEvent {}

    /**
     * The state from which a plan was made.
     *
     * @param restart the number of the last restart
     * @param places the pods of each node
     */
    record PlanBasis(long restart, Map<String, Set<String>> places) {}

    /** A node is off, so that none of its pods runs, and none of its migrations is under way. */
    record NodeOff(String host) implements JobEvent {}

    /** A target has restored its pods, which are held. */
    record PodsRestored(String host, long restart) implements JobEvent {}

    /** A target could not restore its pods, or can no longer hold them. */
    record RestoreFailed(String host, long restart, String reason) implements JobEvent {}

    /** A target has released its pods, which run. */
    record Released(String host, long restart) implements JobEvent {}

    /** A source begins to move pods of the job. */
    record MoveBegun(String id, String host, Set<String> pods) implements JobEvent {
        public MoveBegun {
            pods = Set.copyOf(pods);
        }
    }

    /**
     * A move is over. It may be one that no controller has noted: then it has a target and pods.
     *
     * @param host the node that reports it, which the pods have left
     * @param to the node at which the pods are now, or empty if it is unknown
     * @param pods the pods that were moved, or may have been; empty if none was
     */
    record MoveEnded(String id, String host, String to, Set<String> pods) implements JobEvent {
        public MoveEnded {
            pods = Set.copyOf(pods);
        }
    }

    /** All images of a set are at the second place. */
    record SetCopied(String set) implements JobEvent {}

    /** The copy of a set does not advance. */
    record CopyStuck(String set) implements JobEvent {}

    /** A node is lost, or the time of the present step is over. */
    record StepFailed(String reason) implements JobEvent {}
}
