package io.ppmr.checkpoint;

import io.ppmr.protocol.data.ImageTraits;

/**
 * A tool that writes a rank's processes into image files and makes processes of them again: BLCR, CRIU, or any two
 * commands. An adapter knows the tool's command line and its habits; it runs the commands and proves what it reports.
 *
 * <p>Implementations are immutable and safe for any thread. A started command belongs to the {@link RankCommand}.
 */
public interface Checkpointer extends ImageTraits {

    /** The name in configurations: {@code blcr}, {@code criu}, {@code command}. */
    String name();

    /** Whether it can run on this node, and if not, what is missing and how to get it. Cheap enough for each start. */
    Availability probe();

    /** What its restart takes from the node, besides the image. */
    default RestartNeeds restartNeeds() {
        return RestartNeeds.UNKNOWN;
    }

    /** Says as whom its commands run. */
    RunAs runAs();

    /**
     * Returns the owner of the directories in which a rank's image is written and shown: the user as whom the restart
     * reads them. Nobody else creates, renames, removes or cuts anything there.
     *
     * @param user the job's user
     */
    default JobUser imageOwner(JobUser user) {
        return runAs().restartsAsRoot() ? JobUser.ofService() : user;
    }

    /** Whether a rank that is held, as a failed attempt leaves it, can be checkpointed again. */
    boolean checkpointsHeldRanks();

    /**
     * Returns true if the processes write their images themselves, so that a failed write may end them. Then the writes
     * of a failed attempt are taken and thrown away until its commands have ended. Otherwise those writes fail, which
     * ends the command at once.
     */
    boolean writesFromWithin();

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
}
