package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;
import java.util.List;

/**
 * What a {@link Coordinator} needs of the source's service. Called on the migration's thread, in the rules' order.
 * A method that gives false is called again, until it gives true; what comes after it waits.
 */
public interface CoordinatorPorts {
    /**
     * Says it, about that attempt, if the participant can be reached now; else drops it, it will be said again. Never
     * blocks for long.
     */
    void send(String participant, int attempt, ControlMessage message);

    /** Proves all originals, thread by thread: held, and that none has run since it was found held. */
    Originals originals();

    /** Names for people an original that is not held; asked after {@link #originals} has said so. */
    String whyNotHeld();

    /** Who takes part in another attempt after this failure, or empty if there is to be none. */
    List<String> nextAttempt(String reason, String participant);

    /** Says Begin to each and starts the checkpoints; the originals are held already if it is not the first attempt. */
    void startAttempt(int attempt, List<String> participants);

    /**
     * Ends checkpoints and streams of an attempt that failed; whether the checkpoints have ended. Originals stay held
     * if they are.
     */
    boolean stopAttempt(int attempt, String reason);

    /** Lets the message go out that completes the participant's image. */
    void seal(String participant);

    /** Ends every original; whether it is proved that none is left. Those that are gone already are no error. */
    boolean endOriginals();

    /** Every original that is alive goes on; whether all do. */
    boolean continueOriginals();

    /** Runs the resume hook. Its failure is logged and reported, nothing else. */
    void resume();

    /** Runs the reconnect hook. Its failure is logged and reported, nothing else. */
    void reconnect();

    /**
     * Starts the fence command for a participant's node, and has {@link Coordinator#fenceEnded} called on the
     * migration's thread. Without a command: false, nothing is started.
     */
    boolean fence(String participant);

    /** Says it loudly. */
    void say(String text);

    /** Over: the journal knows it. */
    void finished(Outcome outcome, String reason);
}
