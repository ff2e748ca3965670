package io.ppmr.daemon.part;

import io.ppmr.daemon.jobs.JobName;
import io.ppmr.protocol.control.CheckpointInterval;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** The jobs over several nodes with pods on this node. The part that manages pods offers them. Safe for any thread. */
public interface MemberJobs {
    /** A node without such jobs. */
    MemberJobs NONE = new MemberJobs() {
        @Override
        public List<MemberJob> here() {
            return List.of();
        }

        @Override
        public Map<String, Set<String>> addresses(JobName job) {
            return Map.of();
        }

        @Override
        public Set<String> arriving(JobName job) {
            return Set.of();
        }

        @Override
        public List<Path> directories() {
            return List.of();
        }

        @Override
        public List<Path> copyDirectories() {
            return List.of();
        }

        @Override
        public boolean end(JobName job) {
            return true;
        }

        @Override
        public void onChange(Runnable changed) {
            // Nothing changes here.
        }
    };

    /**
     * A job with its pods on this node.
     *
     * @param name its user and its name
     * @param members the number of its pods on all nodes
     * @param pods the names of its pods here
     * @param checkpoints the directory of its checkpoints, or empty if the templates of its pods name none, or several
     * @param copies the directory of the copies of its checkpoints, or empty if the templates name none, or several
     * @param interval the interval of its checkpoints, as its user ordered it
     * @param isMoving whether a migration removes some of the pods now
     * @param recovers whether the controllers bring it back by themselves after the loss of a node
     */
    record MemberJob(
            JobName name,
            int members,
            Set<String> pods,
            Optional<Path> checkpoints,
            Optional<Path> copies,
            CheckpointInterval interval,
            boolean isMoving,
            boolean recovers) {
        public MemberJob {
            pods = Set.copyOf(pods);
        }

        /** Returns the same job with no pods. */
        public MemberJob without() {
            return new MemberJob(name, members, Set.of(), checkpoints, copies, interval, false, recovers);
        }

        /** Returns the same job whether it moves or not. */
        public MemberJob still() {
            return new MemberJob(name, members, pods, checkpoints, copies, interval, false, recovers);
        }
    }

    /** Lists the jobs with pods that run here. */
    List<MemberJob> here() throws IOException;

    /** Returns the addresses of a job's pods that run here, by the names of the pods. */
    Map<String, Set<String>> addresses(JobName job) throws IOException;

    /** Lists the pods of a job that a migration brings to this node. They may be held, and run later. */
    Set<String> arriving(JobName job) throws IOException;

    /** Lists the directories of checkpoints of this node's configuration. */
    List<Path> directories();

    /** Lists the directories of copies of checkpoints of this node's configuration. */
    List<Path> copyDirectories();

    /**
     * Ends all pods of a job here, with their networks, at once: a set of the job is restored.
     *
     * @return false if something of the job is left, also of pods that arrive or leave: then it is called again
     */
    boolean end(JobName job) throws IOException;

    /** Sets what is called after a pod was started, ended, or moved. It must not block. */
    void onChange(Runnable changed);
}
