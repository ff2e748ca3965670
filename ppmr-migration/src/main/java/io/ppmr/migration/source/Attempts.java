package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The attempts of a migration to move its job. Owned by the migration's worker, except where any thread is allowed. Its
 * repeated work checks the checkpoints of the current attempt.
 */
interface Attempts extends SerialWorker.RepeatedWork {
    /** Sends Begin to each participant, and starts the checkpoints. */
    void begin(int number, List<String> participants) throws IOException, CheckpointException, InterruptedException;

    /** Returns the sessions of the last attempt if all participants have accepted; otherwise none. */
    Map<String, SourceSession> sessions();

    /** Sends the message that completes the participant's image. */
    void seal(String participant) throws IOException, InterruptedException;

    /** Ends the checks of the checkpoints. */
    void stopChecking();

    /** Gives an attempt up. Returns whether its checkpoints ended. */
    boolean giveUp(int number, String reason);

    /** Returns the participants of an attempt after this participant's failure, or empty if no attempt follows. */
    List<String> next(String participant);

    /** Returns true while the originals are unchanged. Originals that are gone then ended by themselves. */
    boolean isUntouched();

    /** Returns true if the job's library has to be notified to continue. */
    boolean hasSuspended();

    /** Closes the last attempt. */
    void close();

    /** Returns the outcome of a migration that has not committed. */
    MigrationReport.Outcome outcomeWithoutCommit();

    /** Returns the reason why the migration has not committed, given the last failure. */
    String reason(String last);

    /** Returns the report of the requested copy of the images, or empty if none was requested. */
    Optional<KeptImageReport> copy();

    /** Returns the plan of the last attempt. Any thread. */
    MigrationPlan plan();

    /** Describes the checkpoints that {@link #giveUp} waits for, or empty while it does not wait. Any thread. */
    Optional<String> waitsFor();

    /** Returns true if the agents of its sessions work. Any thread; blocks it. */
    boolean responds(long limitNs);
}
