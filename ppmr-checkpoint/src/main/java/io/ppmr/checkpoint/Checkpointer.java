package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.data.ImageTraits;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A tool that writes a rank's processes into image files and makes processes of them again: BLCR, CRIU, or any two
 * commands. An adapter knows the tool's command line and its habits; it runs the commands and proves what it reports.
 *
 * <p>Implementations are immutable and safe for any thread. A started command belongs to the {@link RankCommand}.
 */
public interface Checkpointer extends ImageTraits {

    /**
     * The name that the configuration gives it, by which source and target agree on it; there may be several of one
     * kind.
     */
    String name();

    /**
     * Returns whether it can run on this node, and if not, what is missing and how to get it. Cheap enough for each
     * start.
     */
    Availability probe();

    /**
     * Returns why it cannot restart what a checkpointer of the same name has made on another node; empty if it can, or
     * if too little is known of that one.
     *
     * @param detail what that one says of itself: {@link Availability#detail}
     */
    default Optional<String> whyNotFrom(String detail) {
        return Optional.empty();
    }

    /** Returns the needs of its restart, besides the image. */
    default RestartNeeds restartNeeds() {
        return RestartNeeds.UNKNOWN;
    }

    /**
     * Returns true if a copy continues where its original was stopped, as with CRIU. Other checkpointers write a
     * process out of a handler of its own, in which the copy continues.
     */
    default boolean restoresAsStopped() {
        return false;
    }

    /** Returns the users that its commands run as. */
    RunAs runAs();

    /**
     * Returns the owner of the directories in which a rank's image is written and shown: the user that the restart
     * reads them as. Only this user creates, renames, removes or truncates files there.
     *
     * @param user the job's user
     */
    default JobUser imageOwner(JobUser user) {
        return runAs().restartsAsRoot() ? JobUser.ofService() : user;
    }

    /**
     * Returns why the streamed form would not stream this process, which runs or is stopped, as it is now: all of its
     * memory would go into the images. Empty if it would be streamed.
     */
    default Optional<String> whyNotStreamed(ProcessIdentity process) {
        return Optional.empty();
    }

    /**
     * Returns the same tool in the form in which a rank's memory goes into its copy while its checkpoint still writes
     * it, or says why there is none on this node; nothing, if the tool has one form alone. Cheap
     * enough for the start of each migration.
     */
    default StreamedForm streamedForm() {
        return StreamedForm.none(false, "");
    }

    /** Returns true if a rank that is held, as a failed attempt leaves it, can be checkpointed again. */
    boolean checkpointsHeldRanks();

    /**
     * Returns true if the processes write their images themselves, so that a failed write may end them. Then the writes
     * of a failed attempt are taken and thrown away until its commands have ended. Otherwise those writes fail, which
     * ends the command at once.
     */
    boolean writesInProcess();

    /**
     * Throws, and names the process, the cause and the remedy, if one of the ranks lives in namespaces into which this
     * tool must not go. Asked before anything is done to the job, and before its hooks; it touches no process.
     *
     * @param roots the root of each rank's process tree
     */
    default void requireReachable(Map<Integer, ProcessIdentity> roots) throws CheckpointException {}

    /**
     * Throws, and names the process, the cause and the remedy, if this tool is known not to move one of the ranks as
     * they are now.
     * Asked before anything is done to the job; it touches no process. What it does not find, the commands may.
     *
     * @param roots the root of each rank's process tree
     * @param user the job's user
     */
    default void requireMovable(Map<Integer, ProcessIdentity> roots, JobUser user) throws CheckpointException {}

    /**
     * Throws if the ranks, all of which are held now, have come to share something since {@link #requireMovable} was
     * asked. Asked before the last image is said to be whole, so that no copy continues that could not be right.
     */
    default void requireNothingShared(Map<Integer, ProcessIdentity> roots) throws CheckpointException {}

    /**
     * The same for pods, whose connections go along. Throws where this tool moves no pods at all.
     *
     * @param roots the first process of each pod, by rank
     */
    default void requireMovablePods(Map<Integer, ProcessIdentity> roots, JobUser user) throws CheckpointException {
        throw new CheckpointException("checkpointer " + name()
                + " moves no pods. Remedy: name one of type criu that runs as root in the pod's template");
    }

    /**
     * Starts writing a rank's image into its directory and returns at once. When the command has reported success,
     * every process of the rank is stopped.
     */
    RankCommand checkpoint(CheckpointTask task) throws CheckpointException;

    /**
     * Starts restoring a rank out of its directory and returns at once. When the command has reported success, every
     * restored process is stopped.
     */
    RankCommand restart(RestartTask task) throws CheckpointException;

    /**
     * The availability of a tool on this node.
     *
     * @param available whether it can
     * @param detail what was found (with its version), or what is missing
     * @param remedy how to get it; empty where it is available
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
     * A form of a tool's images in which memory need not wait at the target until all of it has come.
     *
     * @param form the tool in that form; empty where this node cannot
     * @param required whether the configuration wants nothing else
     * @param whyNot why this node cannot, and what to do; empty where it can
     * @param mostBytes how much of one rank's memory can be streamed
     */
    record StreamedForm(Optional<Checkpointer> form, boolean required, String whyNot, long mostBytes) {
        static StreamedForm none(boolean required, String whyNot) {
            return new StreamedForm(Optional.empty(), required, whyNot, 0);
        }
    }

    /**
     * The needs of a tool's restart, besides its image. Immutable.
     *
     * @param sameFiles whether programs and libraries are mapped again by name, and must be the same files
     * @param freePids whether the processes get their old PIDs beside the node's other processes
     */
    record RestartNeeds(boolean sameFiles, boolean freePids) {
        /** The needs of a tool of which nothing is known. */
        public static final RestartNeeds UNKNOWN = new RestartNeeds(false, false);
    }

    /**
     * The users that a checkpointer's two commands run as, and so the owner of an image's directory: only the user that
     * the restart runs can change what it reads.
     */
    enum RunAs {
        /** Both commands run as the job's user, who owns the image. */
        JOB_USER,

        /**
         * The checkpoint command runs as root and has the job's user write the image ({@code runuser}, DMTCP); so the
         * image is that user's, and the restart runs as that user, too.
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
     * @param processes the rank's processes as a look of a moment ago has found them, one for all ranks; the root of
     *     the tree first, which is checked again before every signal; their user must be {@code user}
     * @param user the job's user
     * @param imageDirectory the rank's directory inside the mounted filesystem
     * @param workDirectory a directory of the service's outside the mount, for the tool's own files and its log; see
     *     {@link WorkDirectories}
     * @param deadline how long the command may take in all
     * @param stoppedByJob processes that were found stopped before anything was done to the job; those of this rank
     *     that are so still when the command is started stay so when the rank is released
     * @param pod what lies around the rank, if it is a pod. Then all of it is stopped before the tool is started, and
     *     stays so when that fails: the pod's keeper continues it, when its network works again
     * @param whenStopped what is to be done once the rank is stopped, before the tool is started; a rank that has it is
     *     stopped before, by checkpointers that do
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
            Optional<WhenStopped> whenStopped) {
        /** Something that is done to a rank that is stopped, within a bounded time. */
        @FunctionalInterface
        public interface WhenStopped {
            /**
             * Does it; the rank is continued again if this throws.
             *
             * @param rank its processes, which are stopped
             */
            void accept(List<ProcessIdentity> rank) throws CheckpointException;
        }

        /** One with nothing to do once the rank is stopped. */
        public CheckpointTask(
                int rank,
                List<ProcessIdentity> processes,
                JobUser user,
                Path imageDirectory,
                Path workDirectory,
                Duration deadline,
                Set<ProcessIdentity> stoppedByJob,
                Optional<Enclosure> pod) {
            this(rank, processes, user, imageDirectory, workDirectory, deadline, stoppedByJob, pod, Optional.empty());
        }

        public CheckpointTask {
            processes = List.copyOf(processes);
            stoppedByJob = Set.copyOf(stoppedByJob);
        }

        /** The root of the rank's process tree. */
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
     * @param workDirectory a directory of the service's outside the mount, for the tool's own files and its log; see
     *     {@link WorkDirectories}
     * @param deadline how long the command may take in all
     * @param pod what lies around the rank, if it is a pod
     */
    record RestartTask(
            int rank,
            JobUser user,
            Path imageDirectory,
            Path workDirectory,
            Duration deadline,
            Optional<Enclosure> pod) {
        /** A rank that is no pod. */
        public RestartTask(int rank, JobUser user, Path imageDirectory, Path workDirectory, Duration deadline) {
            this(rank, user, imageDirectory, workDirectory, deadline, Optional.empty());
        }
    }
}
