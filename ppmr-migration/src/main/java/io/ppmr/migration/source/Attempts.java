package io.ppmr.migration.source;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The attempts of a migration to move its job. Owned by the migration's worker, except for what says otherwise. What it
 * looks at again and again are the checkpoints of the attempt that is under way.
 */
interface Attempts extends SerialWorker.RepeatedWork {
    /** Says Begin to each participant, and starts the checkpoints. */
    void begin(int number, List<String> participants) throws IOException, CheckpointException, InterruptedException;

    /** Returns the sessions with the participants that all take part in the last attempt; none before they do. */
    Map<String, SourceSession> sessions();

    /** Lets the message go out that completes the participant's image. */
    void seal(String participant) throws IOException, InterruptedException;

    /** Looks at checkpoints no more. */
    void rest();

    /** Gives an attempt up; whether its checkpoints have ended. */
    boolean giveUp(int number, String reason);

    /** Returns the participants of an attempt after this participant's failure; empty if there is to be none. */
    List<String> next(String participant);

    /** Returns true while nothing was done to the originals: those that are gone by now have ended by themselves. */
    boolean untouched();

    /** Returns true if the job's library has to be told to continue. */
    boolean hasSuspended();

    /** Takes the last attempt down. */
    void close();

    /** Returns the outcome of a migration that has not committed. */
    MigrationReport.Outcome notMoved();

    /** Returns the reason why it has not committed, by the last one that was given. */
    String reason(String last);

    /** Returns the report of the copy that was wanted of the images; empty if none was. */
    Optional<KeptImageReport> copy();

    /** Returns the plan of the last attempt. Any thread. */
    MigrationPlan plan();

    /** Describes the peers that {@link #giveUp} waits for; empty while it does not wait. Any thread. */
    Optional<String> waitsFor();

    /** Returns true if the agents of its sessions do their work. Any thread; blocks it. */
    boolean responds(long limitNs);
}
