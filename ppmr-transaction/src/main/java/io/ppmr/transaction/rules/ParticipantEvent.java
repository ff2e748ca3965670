package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.PlannedRank;
import java.util.List;

/** An event of a participant. */
public sealed interface ParticipantEvent {
    /** A message from the coordinator about an attempt. */
    record CoordinatorMessage(int attempt, ControlMessage message) implements ParticipantEvent {}

    /** A message from another participant about an attempt, with its arrival time. */
    record PeerMessage(String participant, int attempt, ControlMessage message, long atNs)
            implements ParticipantEvent {}

    /**
     * All copies are restored and held, and each byte and CRC is accounted for. Throws {@link IllegalArgumentException}
     * if there is no copy to vote for.
     */
    record CopiesHeld(String source, List<PlannedRank> copies, long lastContactNs) implements ParticipantEvent {
        public CopiesHeld {
            copies = List.copyOf(copies);
            if (copies.isEmpty()) {
                throw new IllegalArgumentException("a participant without a copy cannot vote");
            }
        }
    }

    /** Something failed on this node: a restart, the image or a byte of it. */
    record LocalFailure(String reason) implements ParticipantEvent {}

    /** The answer to {@link Effect.ProveCopies}. {@code reason} is empty if all copies are held. */
    record CopiesProved(String reason) implements ParticipantEvent {}

    /** The link to the source is lost. */
    record SourceLost(long atNs) implements ParticipantEvent {}

    /** The source has answered again. */
    record SourceBack() implements ParticipantEvent {}

    /**
     * The window opens in which the source may be fenced.
     *
     * @param untilNs end of the window; it also names the window
     * @param promiseNs time for which the others must keep their promise
     */
    record SourceFenceDue(long untilNs, long promiseNs) implements ParticipantEvent {}

    /** The window in which the source may be fenced is over. */
    record FenceWindowOver() implements ParticipantEvent {}

    /** The fence command ended. {@code off} means that it proves the source off. */
    record FenceEnded(boolean off) implements ParticipantEvent {}

    /** The time of a promise is over. */
    record PromiseOver() implements ParticipantEvent {}

    /**
     * An operator's decision, with proof or the operator's assurance that the source is off.
     *
     * @param firstOff the first participant is off as well
     */
    record ParticipantDecision(FinalOutcome outcome, boolean firstOff) implements ParticipantEvent {}

    /** Another participant's node is off, as an operator reports. */
    record PeerOff(String participant) implements ParticipantEvent {}
}
