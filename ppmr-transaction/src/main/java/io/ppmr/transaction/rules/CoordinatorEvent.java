package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.PlannedRank;
import java.util.List;

/** An event of a coordinator. */
public sealed interface CoordinatorEvent {
    /** A migration begins. Without a participant there is none: {@link IllegalArgumentException}. */
    record Start(List<String> participants, List<PlannedRank> originals) implements CoordinatorEvent {
        public Start {
            participants = List.copyOf(participants);
            originals = List.copyOf(originals);
            if (participants.isEmpty()) {
                throw new IllegalArgumentException("a migration without a participant cannot begin");
            }
        }
    }

    /** The image for a participant is complete except for its last word; its originals are held. */
    record ImageComplete(String participant, List<PlannedRank> held) implements CoordinatorEvent {
        public ImageComplete {
            held = List.copyOf(held);
        }
    }

    /** A message about an attempt. */
    record ParticipantMessage(String participant, int attempt, ControlMessage message) implements CoordinatorEvent {}

    /**
     * The attempt has failed: a checkpoint, a restart, a link, the pause budget, a hook, or it was called off.
     *
     * @param copiesGone a participant no longer has copies
     * @param originals proved just now
     * @param next who takes part in another attempt, empty for none
     */
    record AttemptFailure(String reason, boolean copiesGone, OriginalsState originals, List<String> next)
            implements CoordinatorEvent {
        public AttemptFailure {
            next = List.copyOf(next);
        }
    }

    /** The originals were proved; {@code reason} says which is not held, for people, and is empty if all are. */
    record Proved(OriginalsState originals, String reason) implements CoordinatorEvent {}

    /** There will be no other attempt: called off, or the pause budget is used up. */
    record NoMoreAttempts(String reason) implements CoordinatorEvent {}

    /** The participant has not been reached so long that it may be fenced. */
    record FenceDue(String participant) implements CoordinatorEvent {}

    /** The participant's node is off: its fence says so, or an operator does. */
    record Off(String participant) implements CoordinatorEvent {}

    /** An operator decides. */
    record CoordinatorDecision(FinalOutcome outcome) implements CoordinatorEvent {}

    /** The proved state of all originals of a migration together, thread by thread. */
    enum OriginalsState {
        /** Every one is alive and held, and has not run since it was found held. */
        HELD,
        /** Every one is alive; some run, or have run since they were found held. */
        ALIVE,
        /** At least one is gone, or cannot be proved to be alive. */
        DEAD
    }
}
