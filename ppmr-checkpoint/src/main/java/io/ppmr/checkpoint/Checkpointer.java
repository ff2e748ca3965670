package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.data.ImageTraits;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A tool that writes a rank's processes into image files and restores them: BLCR, CRIU, or any two commands. An adapter
 * has the tool's command line and traits. It runs the commands and proves their reports.
 *
 * <p>Implementations are immutable and safe for any thread. A started command belongs to the {@link RankCommand}.
 */
public interface Checkpointer extends ImageTraits {

    /**
     * Returns the name from the configuration, which is the same at source and target. There may be several
     * checkpointers of one kind.
     */
    String name();

    /** Returns whether it can run on this node, or the missing part and the remedy. Cheap enough for each start. */
    Availability probe();

    /**
     * Returns why it cannot restart images of a checkpointer of the same name on another node. Empty if it can, or if
     * too few facts of that one are known.
     *
     * @param detail that one's {@link Availability#detail}
     */
    default Optional<String> whyNotFrom(String detail) {
        return Optional.empty();
    }

    /** Returns the needs of its restart in addition to the image. */
    default RestartNeeds restartNeeds() {
        return RestartNeeds.UNKNOWN;
    }

    /**
     * Returns true if a copy continues where its original was stopped, as with CRIU. Other checkpointers write a
     * process from a handler of its own, in which the copy continues.
     */
    default boolean restoresAsStopped() {
        return false;
    }

    /** Returns the users that its commands run as. */
    RunAs runAs();

    /**
     * Returns the owner of the directories in which a rank's image is written and shown, which is the user of the
     * restart. Only this user creates, renames, removes or truncates files there.
     *
     * @param user the job's user
     */
    default JobUser imageOwner(JobUser user) {
        return runAs().restartsAsRoot() ? JobUser.ofService() : user;
    }

    /**
     * Returns why the streamed form would not stream this process in its present state, running or stopped. Then all of
     * its memory goes into the images. Empty if it would be streamed.
     */
    default Optional<String> whyNotStreamed(ProcessIdentity process) {
        return Optional.empty();
    }

    /**
     * Returns the tool in its streamed form, in which memory goes into the copy while its checkpoint still writes.
     * Otherwise it has the reason why this node has none. It is empty if the tool has only one form. Cheap enough for
     * the start of each migration.
     */
    default StreamedForm streamedForm() {
        return StreamedForm.none(false, "");
    }

    /** Returns true if the configuration requires memory to be copied while the job runs, where both nodes can. */
    default boolean prefersPreCopy() {
        return false;
    }

    /** Returns why this node does not copy the memory of its running jobs, or empty if it can. Cheap, as above. */
    default Optional<String> whyNotPreCopied() {
        return Optional.of("checkpointer " + name() + " copies no memory of a running job");
    }

    /**
     * Returns the streamed form in which memory is copied in rounds while the job runs, and the copies are filled from
     * that store. Empty if this node cannot stream.
     *
     * @param storeBytes limit of the stores of all ranks at the target together
     */
    default Optional<Checkpointer> precopiedForm(long storeBytes) {
        return Optional.empty();
    }

    /** Returns true for the form of {@link #precopiedForm}. */
    default boolean isPrecopied() {
        return false;
    }

    /**
     * Begins to copy a running rank's memory, and returns at once. Only the precopied form does this. The rank is
     * stopped for some milliseconds in each round.
     */
    default PreCopy preCopy(CheckpointTask task) throws CheckpointException {
        throw new CheckpointException("checkpointer " + name() + " copies no memory of a running job");
    }

    /** Returns true if a held rank, as a failed attempt leaves it, can be checkpointed again. */
    boolean checkpointsHeldRanks();

    /**
     * Returns true if the processes write their images themselves, so that a failed write may end them. Then the writes
     * of a failed attempt are accepted and discarded until its commands end. Otherwise those writes fail, which
     * ends the command at once.
     */
    boolean writesInProcess();

    /**
     * Throws if one of the ranks lives in namespaces that this tool must not enter. The message names the process, the
     * cause and the remedy. Called before the job is changed, and before its hooks. It touches no process.
     *
     * @param roots the root of each rank's process tree
     */
    default void requireReachable(Map<Integer, ProcessIdentity> roots) throws CheckpointException {}

    /**
     * Throws if this tool cannot move one of the ranks as they are now. The message names the process, the cause and
     * the remedy. Called before the job is changed. It touches no process. The commands may find further obstacles.
     *
     * @param roots the root of each rank's process tree
     * @param user the job's user
     */
    default void requireMovable(Map<Integer, ProcessIdentity> roots, JobUser user) throws CheckpointException {}

    /**
     * Throws if the held ranks came to share an object since {@link #requireMovable}. Called before the last image is
     * complete, so that no wrong copy continues.
     */
    default void requireNothingShared(Map<Integer, ProcessIdentity> roots) throws CheckpointException {}

    /**
     * Throws if one of these pods cannot be moved with its connections, or if this tool moves no pods.
     *
     * @param roots the first process of each pod, by rank
     */
    default void requireMovablePods(Map<Integer, ProcessIdentity> roots, JobUser user) throws CheckpointException {
        throw new CheckpointException("checkpointer " + name()
                + " cannot move pods. Remedy: in the pod's template, name a checkpointer of type criu that"
                + " runs as root");
    }

    /**
     * Starts writing a rank's image into its directory and returns at once. When the command has reported success,
     * every process of the rank is stopped.
     */
    RankCommand checkpoint(CheckpointTask task) throws CheckpointException;

    /**
     * Prepares a checkpoint, for a caller that holds the rank only later. No process of the rank is touched. What can
     * be done in advance is done here, so that the rank's pause gets shorter.
     */
    default PreparedCheckpoint prepare(CheckpointTask task) throws CheckpointException {
        return new PreparedCheckpoint() {
            @Override
            public List<ProcessIdentity> started() {
                return List.of();
            }

            @Override
            public RankCommand start() throws CheckpointException {
                return checkpoint(task);
            }

            @Override
            public void close() {
                // Nothing was started.
            }
        };
    }

    /**
     * Starts restoring a rank from its directory and returns at once. When the command has reported success, every
     * restored process is stopped.
     */
    RankCommand restart(RestartTask task) throws CheckpointException;

    /**
     * The availability of a tool on this node.
     *
     * @param available whether it can run
     * @param detail the tool with its version, or the missing part
     * @param remedy how to install it, or empty if it is available
     */
    record Availability(boolean available, String detail, String remedy) {
        static Availability present(String detail) {
            return new Availability(true, detail, "");
        }

        static Availability lacking(String detail, String remedy) {
            return new Availability(false, detail, remedy);
        }
    }

    /**
     * A form of a tool's images in which memory need not wait at the target for its last byte.
     *
     * @param form the tool in that form, or empty if this node cannot run it
     * @param required whether the configuration allows no other form
     * @param whyNot why this node cannot run it, with the remedy, or empty if it can
     * @param mostBytes memory of one rank that can be streamed
     */
    record StreamedForm(Optional<Checkpointer> form, boolean required, String whyNot, long mostBytes) {
        static StreamedForm none(boolean required, String whyNot) {
            return new StreamedForm(Optional.empty(), required, whyNot, 0);
        }
    }

    /**
     * The needs of a tool's restart in addition to its image. Immutable.
     *
     * @param sameFiles whether programs and libraries are mapped again by name, and must be the same files
     * @param freePids whether the processes get their old PIDs among the node's other processes
     */
    record RestartNeeds(boolean sameFiles, boolean freePids) {
        /** The needs of a tool without known traits. */
        public static final RestartNeeds UNKNOWN = new RestartNeeds(false, false);
    }

    /**
     * The users of a checkpointer's two commands. They decide the owner of an image's directory, because only the user
     * of the restart may change its input.
     */
    enum RunAs {
        /** Both commands run as the job's user, who owns the image. */
        JOB_USER,

        /**
         * The checkpoint command runs as root and lets the job's user write the image ({@code runuser}, DMTCP). So that
         * user owns the image, and runs the restart, too.
         */
        ROOT_THEN_JOB_USER,

        /** Both commands run as root, which owns the image. */
        ROOT;

        /** Returns true if the checkpoint command runs as the service's own user, which is root. */
        public boolean checkpointsAsRoot() {
            return this != JOB_USER;
        }

        /** Returns true if the restart runs as the service's own user, which is root. */
        public boolean restartsAsRoot() {
            return this == ROOT;
        }
    }

    /**
     * The order to checkpoint a rank.
     *
     * @param rank the rank's number
     * @param processes the rank's processes, from one recent scan for all ranks. The root of the tree is first, and
     *     is checked again before every signal. Their user must be {@code user}.
     * @param user the job's user
     * @param imageDirectory the rank's directory inside the mounted filesystem
     * @param workDirectory the service's directory outside the mount, for the tool's own files and its log; see
     *     {@link WorkDirectories}
     * @param deadline time limit of the command
     * @param stoppedByJob processes that were found stopped before the job was changed. Those of this rank that are
     *     still stopped at the command's start stay stopped after the rank's release.
     * @param pod enclosure of the rank, if it is a pod. Then all of it is stopped before the tool is started. After
     *     a failure, the pods' part continues it when its network works again.
     * @param whenStopped work between the rank's stop and the tool's start. A rank with such work is stopped first,
     *     if the checkpointer supports that.
     * @param preCopy the copy of its memory that was begun while it ran
     */
    record CheckpointTask(
            int rank,
            List<ProcessIdentity> processes,
            JobUser user,
            Path imageDirectory,
            Path workDirectory,
            Duration deadline,
            Set<ProcessIdentity> stoppedByJob,
            Optional<Enclosure> pod,
            Optional<WhenStopped> whenStopped,
            Optional<PreCopy> preCopy) {
        /** Work on a stopped rank, within a bounded time. */
        @FunctionalInterface
        public interface WhenStopped {
            /**
             * Does the work. If this throws, the rank is continued again.
             *
             * @param rank its stopped processes
             */
            void accept(List<ProcessIdentity> rank) throws CheckpointException;
        }

        /** Makes an order without work on the stopped rank. */
        public CheckpointTask(
                int rank,
                List<ProcessIdentity> processes,
                JobUser user,
                Path imageDirectory,
                Path workDirectory,
                Duration deadline,
                Set<ProcessIdentity> stoppedByJob,
                Optional<Enclosure> pod) {
            this(
                    rank,
                    processes,
                    user,
                    imageDirectory,
                    workDirectory,
                    deadline,
                    stoppedByJob,
                    pod,
                    Optional.empty(),
                    Optional.empty());
        }

        /** Returns the same order after the rank's memory was copied in rounds. */
        public CheckpointTask after(PreCopy copied) {
            return new CheckpointTask(
                    rank,
                    processes,
                    user,
                    imageDirectory,
                    workDirectory,
                    deadline,
                    stoppedByJob,
                    pod,
                    whenStopped,
                    Optional.of(copied));
        }

        public CheckpointTask {
            processes = List.copyOf(processes);
            stoppedByJob = Set.copyOf(stoppedByJob);
        }

        /** Returns the root of the rank's process tree. */
        public ProcessIdentity root() {
            return processes.get(0);
        }
    }

    /**
     * The order to restore a rank.
     *
     * @param rank the rank's number
     * @param user the job's user; the restart runs as this user if the tool permits it
     * @param imageDirectory the rank's directory inside the mounted filesystem
     * @param workDirectory the service's directory outside the mount, for the tool's own files and its log; see
     *     {@link WorkDirectories}
     * @param deadline time limit of the command
     * @param pod enclosure of the rank, if it is a pod
     */
    record RestartTask(
            int rank,
            JobUser user,
            Path imageDirectory,
            Path workDirectory,
            Duration deadline,
            Optional<Enclosure> pod) {
        /** Makes an order for a rank that is no pod. */
        public RestartTask(int rank, JobUser user, Path imageDirectory, Path workDirectory, Duration deadline) {
            this(rank, user, imageDirectory, workDirectory, deadline, Optional.empty());
        }
    }
}
