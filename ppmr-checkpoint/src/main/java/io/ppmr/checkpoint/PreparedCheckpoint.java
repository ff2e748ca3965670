package io.ppmr.checkpoint;

import io.ppmr.linux.ProcessIdentity;
import java.util.List;

/**
 * A checkpoint of a rank that is about to be written. No process of the rank was touched. Its tool may have been
 * started, and waits. If the service dies, the tool ends without a change. Owned by one thread at a time.
 */
public interface PreparedCheckpoint extends AutoCloseable {
    /** Returns the processes that were started for it, for {@link OrphanedCommand#note}. */
    List<ProcessIdentity> started();

    /** Begins to write the image, as {@link Checkpointer#checkpoint} does. Call it once. */
    RankCommand start() throws CheckpointException;

    /** Ends the tool if the checkpoint was not started. */
    @Override
    void close();
}
