package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;

/**
 * What a {@link Participant} needs of the target's service. Called on the migration's thread, in the rules' order.
 * A method that gives false is called again, until it gives true; what comes after it waits.
 */
public interface ParticipantPorts {
    /**
     * Says it to the coordinator, about that attempt, if it can be reached now; else drops it, it will be said again.
     * The clock in {@link ControlMessage.Accept} and the report in {@link ControlMessage.Prepared} are put in here.
     */
    void reply(int attempt, ControlMessage message);

    /** Says it to another participant, about that attempt, if it can be reached now; else drops it, as above. */
    void send(String participant, int attempt, ControlMessage message);

    /** Starts to restore, held. */
    void startRestore(int attempt);

    /** Proves every copy alive and held; gives why one is not, or an empty text. */
    String copiesHeld();

    /** The copies go on; gives false only where it makes sense to try again. One that is gone is logged. */
    boolean releaseCopies();

    /** Stops what is being restored and ends every copy; whether it is proved that none is left. */
    boolean endCopies();

    /**
     * Starts the fence command for the source's node, and has {@link Participant#fenceEnded} called on the migration's
     * thread. The command is not started after {@code untilNs} ({@code System.nanoTime}), to be looked at right before
     * its start; it is killed at its deadline. Without a command: false, nothing is started.
     */
    boolean fenceSource(String source, long untilNs);

    /**
     * Closes the link to the source, if there is one: what was on its way on it must not be heard any more. The source
     * connects again if it lives; then {@link Participant#linkUp} is called.
     */
    void dropSourceLink();

    /** Decided here, and every copy runs: runs the reconnect hook. Its failure is logged and reported, nothing else. */
    void reconnect();

    /** Says it loudly. */
    void say(String text);

    /** Over here: the journal knows it. Another attempt may follow. */
    void finished(Outcome outcome, String reason);
}
