package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import java.util.List;

/**
 * An effect that follows a step of the rules. The effects of a transition are carried out one after the other, in
 * order. If one cannot be carried out yet, it is tried again, and the later ones wait.
 */
public sealed interface Effect {
    /** Writes the record to the journal, and to the disk before the next effect. */
    record Persist(TransactionRecord record) implements Effect {}

    /** Sends the message about that attempt to the participant. The message may be lost. */
    record Send(String participant, int attempt, ControlMessage message) implements Effect {}

    /**
     * Participant: sends the message about that attempt to the coordinator. The message may be lost. The service fills
     * in a vote's figures about the transfer.
     */
    record Reply(int attempt, ControlMessage message) implements Effect {}

    /**
     * Coordinator: sends Begin to each participant of the attempt, and starts its checkpoints. From the second attempt
     * on, the originals are held already.
     */
    record StartAttempt(int attempt, List<String> participants) implements Effect {
        public StartAttempt {
            participants = List.copyOf(participants);
        }
    }

    /** Coordinator: lets the message leave that completes the participant's image. */
    record Seal(String participant) implements Effect {}

    /**
     * Coordinator: evaluates a failure. The executor proves the originals, finds out whether another attempt is due,
     * and passes {@link CoordinatorEvent.AttemptFailure} to the rules.
     *
     * @param copiesGone the participant no longer has copies, or never will
     */
    record EvaluateFailure(String reason, String participant, boolean copiesGone) implements Effect {}

    /** Coordinator: stops this attempt's checkpoints and image streams. The originals stay as they are. */
    record StopAttempt(int attempt, String reason) implements Effect {}

    /**
     * Coordinator: proves the originals, in the last round or before they continue. {@link CoordinatorEvent.Proved}
     * passes the result to the rules.
     */
    record ProveOriginals() implements Effect {}

    /**
     * Coordinator of a restarted service: proves the originals, and passes the result with these records to the rules.
     */
    record Recover(List<TransactionRecord> records) implements Effect {
        public Recover {
            records = List.copyOf(records);
        }
    }

    /** Coordinator: kills every original. None is alive before the next effect. */
    record EndOriginals() implements Effect {}

    /** Coordinator: continues the originals that are alive. */
    record ContinueOriginals() implements Effect {}

    /** Coordinator: runs the job's resume hook. */
    record Resume() implements Effect {}

    /** Runs the job's reconnect hook, at the coordinator or at the participant that has decided without it. */
    record Reconnect() implements Effect {}

    /** Coordinator: runs the fence command for the participant's node. */
    record FenceParticipant(String participant) implements Effect {}

    /** Participant: starts the restore, which leaves the copies held. */
    record StartRestore(int attempt) implements Effect {}

    /** Participant: proves the copies and passes {@link ParticipantEvent.CopiesProved} to the rules. */
    record ProveCopies() implements Effect {}

    /**
     * Participant: proves the copies before it promises anything to another participant. The executor then passes that
     * question to the rules.
     */
    record ProveForPromise(ParticipantEvent.PeerMessage question) implements Effect {}

    /**
     * Participant: closes the link to the source, if there is one. Messages that are still in transit on it are
     * ignored. The source connects again if it lives.
     */
    record DropSourceLink() implements Effect {}

    /** Participant: continues the copies. A copy that is gone does not stop the effect. */
    record ReleaseCopies() implements Effect {}

    /** Participant: stops running restores and kills every copy. None is alive before the next effect. */
    record EndCopies() implements Effect {}

    /** Participant: runs the fence command for the source's node. */
    record FenceSource() implements Effect {}

    /** Reports something that an operator must know, as a warning. */
    record Report(String text) implements Effect {}

    /** Ends the migration on this node. */
    record Finished(FinalOutcome outcome, String reason) implements Effect {}
}
