package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import java.util.List;

/**
 * An effect that has to follow a step of the rules. The effects of a transition are carried out one after the other, in
 * order; one that cannot be carried out yet is tried again, and those behind it wait.
 */
public sealed interface Effect {
    /** The record is in the journal and on the disk before the next effect. */
    record Persist(TransactionRecord record) implements Effect {}

    /** Say it to that participant, about that attempt; it may be lost. */
    record Send(String participant, int attempt, ControlMessage message) implements Effect {}

    /**
     * Participant: say it to the coordinator, about that attempt; it may be lost. What a vote says of the transfer is
     * the service's to fill in.
     */
    record Reply(int attempt, ControlMessage message) implements Effect {}

    /**
     * Coordinator: say Begin to each who takes part in an attempt, and start its checkpoints. The originals are held
     * already if it is not the first.
     */
    record StartAttempt(int attempt, List<String> participants) implements Effect {
        public StartAttempt {
            participants = List.copyOf(participants);
        }
    }

    /** Coordinator: the message that completes the participant's image may leave. */
    record Seal(String participant) implements Effect {}

    /**
     * Coordinator: a failure has come to light; prove the originals, find whether another attempt is due, and feed
     * {@link CoordinatorEvent.AttemptFailure} to the rules.
     *
     * @param copiesGone the participant no longer has copies, or never will
     */
    record Judge(String reason, String participant, boolean copiesGone) implements Effect {}

    /** Coordinator: stop what runs for this attempt (checkpoints, image streams); the originals stay as they are. */
    record StopAttempt(int attempt, String reason) implements Effect {}

    /**
     * Coordinator: prove the originals, in the last round or before they continue, and feed {@link
     * CoordinatorEvent.Proved} to the rules.
     */
    record ProveOriginals() implements Effect {}

    /** Coordinator of a restarted service: prove the originals, and feed that to the rules with these records. */
    record Recover(List<TransactionRecord> records) implements Effect {
        public Recover {
            records = List.copyOf(records);
        }
    }

    /** Coordinator: end every original; none is left alive before the next effect. */
    record EndOriginals() implements Effect {}

    /** Coordinator: the originals that are alive continue. */
    record ContinueOriginals() implements Effect {}

    /** Coordinator: the job's resume hook. */
    record Resume() implements Effect {}

    /** Coordinator, or the participant that has decided without it: the job's reconnect hook. */
    record Reconnect() implements Effect {}

    /** Coordinator: have the participant's node proved off. */
    record FenceParticipant(String participant) implements Effect {}

    /** Participant: start to restore, held. */
    record StartRestore(int attempt) implements Effect {}

    /** Participant: prove the copies and feed {@link ParticipantEvent.CopiesProved} to the rules. */
    record ProveCopies() implements Effect {}

    /** Participant: prove the copies before it promises another one something, and feed that question to the rules. */
    record ProveForPromise(ParticipantEvent.PeerMessage heard) implements Effect {}

    /**
     * Participant: close the link to the source, if there is one, so that what was on its way on it is no longer heard.
     * The source connects again if it lives.
     */
    record DropSourceLink() implements Effect {}

    /** Participant: the copies continue. One that is gone is no reason to stop. */
    record ReleaseCopies() implements Effect {}

    /** Participant: stop what is being restored and end every copy; none is left before the next effect. */
    record EndCopies() implements Effect {}

    /** Participant: have the source's node proved off. */
    record FenceSource() implements Effect {}

    /** Either: something that an operator has to know, loudly. */
    record Say(String text) implements Effect {}

    /** Either: over here. */
    record Finished(FinalOutcome outcome, String reason) implements Effect {}
}
