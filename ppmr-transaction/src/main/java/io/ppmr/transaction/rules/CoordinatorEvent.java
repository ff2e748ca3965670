package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.PlannedRank;
import java.util.List;

/** An event of a coordinator. */
public sealed interface CoordinatorEvent {
    /** Begins the migration. Throws {@link IllegalArgumentException} if there is no participant. */
    record Start(List<String> participants, List<PlannedRank> originals) implements CoordinatorEvent {
        public Start {
            participants = List.copyOf(participants);
            originals = List.copyOf(originals);
            if (participants.isEmpty()) {
                throw new IllegalArgumentException("a migration without a participant cannot begin");
            }
        }
    }

    /** The image for a participant is complete except for the message that seals it. Its originals are held. */
    record ImageComplete(String participant, List<PlannedRank> held) implements CoordinatorEvent {
        public ImageComplete {
            held = List.copyOf(held);
        }
    }

    /** A message from a participant about an attempt. */
    record ParticipantMessage(String participant, int attempt, ControlMessage message) implements CoordinatorEvent {}

    /**
     * The attempt failed: a checkpoint, a restart, a link, the pause budget or a hook. An operator's cancellation
     * counts, too.
     *
     * @param copiesGone a participant no longer has copies
     * @param originals state of the originals, proved just now
     * @param next participants of another attempt, empty for none
     */
    record AttemptFailure(String reason, boolean copiesGone, OriginalsState originals, List<String> next)
            implements CoordinatorEvent {
        public AttemptFailure {
            next = List.copyOf(next);
        }
    }

    /**
     * The originals were proved. {@code reason} names for people an original that is not held; it is empty if all are.
     */
    record Proved(OriginalsState originals, String reason) implements CoordinatorEvent {}

    /** No other attempt follows, because the migration was called off or the pause budget is used up. */
    record NoMoreAttempts(String reason) implements CoordinatorEvent {}

    /** The participant has been unreachable for so many seconds that it may be fenced. */
    record FenceDue(String participant) implements CoordinatorEvent {}

    /** The participant's node is off, as its fence command or an operator reports. */
    record Off(String participant) implements CoordinatorEvent {}

    /** An operator's decision. */
    record CoordinatorDecision(FinalOutcome outcome) implements CoordinatorEvent {}

    /** The proved state of all originals of a migration together. Each thread counts. */
    enum OriginalsState {
        /** Each original is alive and held, and has not run since it was found held. */
        HELD,
        /** Each original is alive. Some run, or ran after they were found held. */
        ALIVE,
        /** At least one original is gone, or cannot be proved to be alive. */
        DEAD
    }
}
