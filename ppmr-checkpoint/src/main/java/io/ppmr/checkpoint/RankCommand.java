package io.ppmr.checkpoint;

import io.ppmr.os.ProcessIdentity;
import java.time.Duration;
import java.util.List;

/**
 * One checkpoint or restart that is under way. Owned by the thread that started it; {@link #cancel} may come from any.
 */
public interface RankCommand {

    /**
     * Waits until the tool has reported success and every process is proved to be stopped.
     *
     * @param atMost how long to wait in this call
     * @return the held rank, or null if the command is still running after {@code atMost}
     * @throws CheckpointException if the command failed, ran past its deadline or was cancelled; after a failed or
     *     cancelled checkpoint the originals run again, after a failed restart nothing that it restored is left
     */
    HeldRank await(Duration atMost) throws CheckpointException, InterruptedException;

    /**
     * Ends the command. The filesystem has been told to fail its calls before this is called, so the tool is first
     * given time to end by itself: a checkpointer killed in the middle could leave its process broken. One that writes
     * from within its process is not to be cancelled while there is time to let it end ({@link
     * Checkpointer#writesFromWithin}).
     */
    void cancel();

    /**
     * What it has started on this node, for a journal: the tool, and the init of a namespace that was made for the
     * rank.
     * A service that is started after this one has died ends them by {@link AbandonedCommand}.
     */
    List<ProcessIdentity> started();
}
