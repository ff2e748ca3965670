package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.PlannedRank;
import java.util.List;

/** An event of a participant. */
public sealed interface ParticipantEvent {
    /** A message of the coordinator about an attempt. */
    record CoordinatorMessage(int attempt, ControlMessage message) implements ParticipantEvent {}

    /** A message of another participant about an attempt, and when it came, monotonic. */
    record PeerMessage(String participant, int attempt, ControlMessage message, long atNs)
            implements ParticipantEvent {}

    /**
     * Every copy is restored and held, every byte and CRC is accounted for. Without a copy there is nothing to vote
     * for: {@link IllegalArgumentException}.
     */
    record CopiesHeld(String source, List<PlannedRank> copies, long heardNs) implements ParticipantEvent {
        public CopiesHeld {
            copies = List.copyOf(copies);
            if (copies.isEmpty()) {
                throw new IllegalArgumentException("a participant without a copy cannot vote");
            }
        }
    }

    /** A restart, the image, a byte: something has failed here. */
    record LocalFailure(String reason) implements ParticipantEvent {}

    /** The answer to {@link Effect.ProveCopies}; {@code reason} is empty when all are held. */
    record CopiesProved(String reason) implements ParticipantEvent {}

    /** The source is lost. */
    record SourceLost(long atNs) implements ParticipantEvent {}

    /** The source has been spoken with again. */
    record SourceBack() implements ParticipantEvent {}

    /**
     * The window in which the source may be fenced is open.
     *
     * @param untilNs end of the window, monotonic; it also names the window
     * @param promiseNs how long the others shall keep their promise
     */
    record SourceFenceDue(long untilNs, long promiseNs) implements ParticipantEvent {}

    /** The window is over. */
    record FenceWindowOver() implements ParticipantEvent {}

    /** The fence command has ended. {@code off}: it proves the source off. */
    record FenceEnded(boolean off) implements ParticipantEvent {}

    /** The time of a promise is over. */
    record PromiseOver() implements ParticipantEvent {}

    /**
     * An operator decides, with proof or word that the source is off.
     *
     * @param firstOff that the first participant is off as well
     */
    record ParticipantDecision(FinalOutcome outcome, boolean firstOff) implements ParticipantEvent {}

    /** An operator says that another participant's node is off. */
    record PeerOff(String participant) implements ParticipantEvent {}
}
